#!/bin/sh
# ptxas_report.sh COMPILER ... -o OBJECT ...: compiles, and keeps what ptxas says of each kernel's registers, spills and
# shared memory (-Xptxas=-v) in OBJECT.ptxas instead of showing it.
object=
previous=
for word; do
  [ "$previous" != -o ] || object=$word
  previous=$word
done
messages=$object.messages
"$@" 2>"$messages"
status=$?
is_report='^ptxas info|^ +[0-9]+ bytes stack frame'
grep -Ev "$is_report" "$messages" >&2
grep -E "$is_report" "$messages" >"$object.ptxas"
rm -f "$messages"
exit "$status"
