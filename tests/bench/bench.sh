# bench.sh - sourced by scripts of this folder, which set top before, the absolute path of the tree: how all of them
# begin, and what several of them do.
#
# Programs are those that `make bench` names in DL_BIN, DL_TOOLS and DL_BENCH, else those of this tree.
set -eu
export LC_ALL=C
DL_BIN=${DL_BIN:-$top/bin} DL_TOOLS=${DL_TOOLS:-$top/build/tools} DL_BENCH=${DL_BENCH:-$top/build/bench}
PATH=$DL_BIN:$DL_TOOLS:$PATH
unset XDG_CONFIG_HOME DL_KEY DL_TRUST

say() { printf '%s %s\n' "$(date +%H:%M:%S)" "$*" >&2; }
fail() { printf '%s: %s\n' "${0##*/}" "$*" >&2 && exit 1; }
skip() { printf 'skipped: %s\n' "$*" && exit 0; }
# The comment that the script begins with.
usage() { sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"; }

# work_in DIRECTORY: goes there, and sets dir to its absolute path; keys are made there, too.
work_in() {
	mkdir -p "$1"
	cd "$1"
	dir=$PWD
	export HOME="$dir"
}
# work_aside: in a temporary directory, which is removed at the end.
work_aside() {
	work_in "$(mktemp -d)"
	trap 'rm -rf "$dir"' EXIT
	trap 'exit 1' INT TERM
}

# king_james FILE: makes it the King James Bible, unless it is there.
king_james() {
	[ ! -s "$1" ] || return 0
	command -v bible >/dev/null || skip 'no bible here (package bible-kjv)'
	bible -f 'gen1:1-rev22:21' 2>/dev/null | sed 's/^[^ ]* //' >"$1"
}
# digits BYTES: text of chance
digits() {
	awk -v bytes="$1" 'BEGIN { for (srand(7); n < bytes; n += 8) printf "%07d ", 1e7 * rand() }'
}
# ids N: as text, of chance, of a vocabulary of 8192
ids() {
	awk -v n="$1" 'BEGIN { for (srand(7); i++ < n;) printf "%d ", int(8192 * rand()) }'
}

# measure FILE COMMAND...: adds a line to the file: seconds of the command, and the most MiB it took.
measure() {
	lines=$1
	shift
	dl-measure "$@" >/dev/null 2>words || { cat words >&2 && exit 1; }
	tail -n 1 words >>"$lines"
}
# median FILE [COLUMN]: of the numbers there, one a line; of an even number of them the lower of the middle two
median() {
	sort -n -k "${2:-1}" "$1" | awk -v c="${2:-1}" '{ v[NR] = $c } END { print v[int((NR + 1) / 2)] }'
}
