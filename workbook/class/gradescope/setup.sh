#!/bin/bash
# Gradescope runs this once, as root, when the image of the autograder is built: the tools, and the workbook's trusted
# programs.
cd /autograder/source/workbook && ./setup.sh --grade && workbook/class/grade_base.sh build/grades/base
