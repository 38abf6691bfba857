#!/bin/sh
# slurm.sh BASE - a class on a Slurm cluster of one node, made for this and gone afterwards: workbook/class/slurm.sh
# grades keys, one submission that is none and one that appears while the jobs run; called again it grades what is new
# alone. A node where there is no sandbox says so. BASE is what grade_base.sh has made here. Skipped where Slurm is
# not installed (Debian: slurmctld, slurmd, slurm-client) or this is not root.
set -u
cd "$(dirname "$0")/../.." || exit 1
for tool in slurmctld slurmd sbatch; do
    command -v $tool >/dev/null || { echo "skip  Slurm: there is no $tool"; exit 0; }
done
[ "$(id -u)" = 0 ] || { echo "skip  Slurm: a cluster for a test wants root"; exit 0; }
. tests/prove/frame.sh
folder=$scratch host=$(hostname -s)
chmod 755 "$folder" || exit 1
show() { cat "$said" "$folder/out/grades.csv"; }
export SLURM_CONF="$folder/slurm.conf"
stop() {
    scontrol shutdown >/dev/null 2>&1
    for daemon in slurmctld slurmd; do
        while kill -0 "$(cat "$folder/$daemon.pid" 2>/dev/null || echo x)" 2>/dev/null; do sleep 0.1; done
    done
    rm -rf "$folder"
}
trap stop EXIT
trap 'exit 130' INT TERM HUP

mkdir "$folder/state" "$folder/spool" "$folder/in" "$folder/out" && cp -Rp "$1" "$folder/out/base" || exit 1
taken() { cut -d: -f3 /proc/net/tcp /proc/net/tcp6 | grep -q "^$(printf %04X "$1") "; } # PORT
port=$((20000 + $$ % 20000))
while taken $port || taken $((port + 1)); do port=$((port + 2)); done
cat >"$SLURM_CONF" <<END
ClusterName=class
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/none
CredType=cred/none
SlurmUser=root
SlurmctldPort=$port
SlurmdPort=$((port + 1))
StateSaveLocation=$folder/state
SlurmdSpoolDir=$folder/spool
SlurmctldPidFile=$folder/slurmctld.pid
SlurmdPidFile=$folder/slurmd.pid
SlurmctldLogFile=$folder/slurmctld.log
SlurmdLogFile=$folder/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
NodeName=$host NodeAddr=127.0.0.1 CPUs=2 RealMemory=16384
PartitionName=all Nodes=ALL Default=YES State=UP
END
slurmctld -c && slurmd || { echo "FAIL  Slurm: the cluster does not start"; exit 1; }

hand_in() { # NAME NN
    mkdir -p "$folder/in/$1/problems/$2"
    cp solutions/"$2"/*.c* "$folder/in/$1/problems/$2/"
}
grade() { MARCH='' CPUS=1 workbook/class/slurm.sh "$folder/in" "$folder/out" >"$said" 2>&1; }
row() { grep -q "$1" "$folder/out/grades.csv"; } # REGULAR_EXPRESSION
hand_in ada 01
hand_in bob 02
echo nothing >"$folder/in/none.zip"
(
    for i in $(seq 3000); do [ -d "$folder/out/reports" ] || [ -e "$folder/over" ] && break || sleep 0.2; done
    hand_in late 02
) &
grade
right=$?
touch "$folder/over"
wait $!
row '^ada,200,0,' && row '^bob,100,0,' && row '^none.zip,0,0,.*the archive is broken' && ! row late || right=1
verdict $right "Slurm grades a list that was frozen before"

before=$(stat -c %Y "$folder/out/reports/bob/record")
grade && row '^late,100,0,' && [ "$before" = "$(stat -c %Y "$folder/out/reports/bob/record")" ]
verdict $? "called again, it grades what is new alone"

mkdir "$folder/bin" && printf '#!/bin/sh\necho no namespaces here >&2; exit 1\n' >"$folder/bin/bwrap" &&
    chmod +x "$folder/bin/bwrap"
PATH=$folder/bin:$PATH grade
[ $? -eq 1 ] && grep -q "bob has no grade: $host: .*bubblewrap does not work here: no namespaces" "$said"
verdict $? "a node without a sandbox says so: $(grep -m 1 'no grade' "$said")"
exit $failed
