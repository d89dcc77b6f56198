# Sourced by scripts of this folder.
# median FILE [COLUMN]: of the numbers there, one a line; of an even number of them the lower of the middle two
median() {
	sort -n -k "${2:-1}" "$1" | awk -v c="${2:-1}" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }'
}
