// record.h - how a test tells record.c, in another process, more than that it failed.
#pragma once

// Ends the case with which to run a failed test again, and what a report is of (layer_requests.h), in front of a
// failure's message. No text of a student's holds this character.
enum { RECORD_ABOUT = 0x1f };

// The exit status of a test that could not judge, since the harness itself cannot work; its words are on stderr.
enum { RECORD_GAVE_UP = 99 };

// The same of one that could not judge since the machine was too busy: to be tried again, alone.
enum { RECORD_STARVED = 98 };
