#!/usr/bin/env python3
"""Classroom 50's autograder.py for this workbook: gh teacher autograder set-default --from classroom50.py.

Its runner starts this in the student's repository. The judge comes from WORKBOOK below, which students can read and not write: the class
copy (make class-copy). Leaves result.json, or none and a status that is not 0 where nothing could be graded.
"""

import os
import shutil
import subprocess
import sys
import tempfile

WORKBOOK = os.environ.get("WORKBOOK", "https://github.com/ORGANISATION/attention-class")


def main():
    if "ORGANISATION/" in WORKBOOK:
        return "classroom50.py: say in WORKBOOK where the class copy is"
    with tempfile.TemporaryDirectory() as folder:
        workbook, out = folder + "/workbook", folder + "/out"
        run = lambda *command, **more: subprocess.run(command, check=True, **more)
        try:
            run("git", "clone", "--quiet", "--depth=1", WORKBOOK, workbook)
            run("./setup.sh", "--grade", cwd=workbook)
            if os.path.exists("/proc/sys/kernel/apparmor_restrict_unprivileged_userns"):
                run("sudo", "sysctl", "-w", "kernel.apparmor_restrict_unprivileged_userns=0")
            run(workbook + "/workbook/class/actions.sh", ".", out)
        except subprocess.CalledProcessError as error:
            return f"classroom50.py: could not be graded: {error}"
        shutil.copy(out + "/classroom.json", "result.json")


if __name__ == "__main__":
    sys.exit(main())
