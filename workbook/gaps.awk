# gaps.awk - prints a file without what stands in its gaps, between //{ name and //}. A skeleton and its key must agree in this.
/^ *\/\/\}/ { inside = 0 }
!inside { print }
/^ *\/\/\{/ { inside = 1 }
