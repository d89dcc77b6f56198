# Shared by every test file: `load helper`. Programs on PATH, a home of its own for each file, a
# working directory of its own for each test, and checks that say what they found.
#
#     @test "a delta cut in the middle is refused with status 3" {
#         head -c 1000 a.delta > cut.delta
#         run -3 --separate-stderr dl-merge g0.ckpt cut.delta
#         expect_stdout ""
#         expect_stderr_line '^dl-merge: cut\.delta: .*ends early'
#     }

bats_require_minimum_version 1.5.0

repo=$(cd "$BATS_TEST_DIRNAME/../.." && pwd)
DL_BIN=${DL_BIN:-$repo/bin}
DL_TOOLS=${DL_TOOLS:-$repo/build/tools} # programs that only tests run
PATH=$DL_BIN:$DL_TOOLS:$PATH
export DL_BIN DL_TOOLS PATH

# Keys are made on first use: all tests of a file share one home, so that setup_file can prepare
# files that its tests trust. A test that wants to be a stranger calls new_home.
use_home() {
	export HOME=$1 XDG_CONFIG_HOME=$1/.config XDG_DATA_HOME=$1/.local/share
	export XDG_STATE_HOME=$1/.local/state XDG_CACHE_HOME=$1/.cache
	mkdir -p "$HOME"
	unset DL_KEY DL_TRUST
}
new_home() {
	use_home "$BATS_TEST_TMPDIR/home-${1:-other}"
}
use_home "$BATS_FILE_TMPDIR/home"
export LC_ALL=C TZ=UTC TMPDIR=$BATS_FILE_TMPDIR
unset LANG LANGUAGE
umask 022

# Redefine it in a test file if more is needed; begin with the same cd.
setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

# corpus N [SEED]: N bytes of text with the look of English, always the same ones.
corpus() {
	awk -v n="$1" -v s="${2:-1}" '
	function pick(list, k) { s = (s * 16807) % 2147483647; return list[1 + int(s / 65536) % k] }
	function clause() {
		return pick(article, na) " " pick(adjective, nj) " " pick(noun, nn) " " pick(verb, nv) \
			" " pick(article, na) " " pick(noun, nn)
	}
	BEGIN {
		na = split("the the the one this every", article)
		nj = split("old small bright quiet green heavy first other patient lost", adjective)
		nn = split("river captain letter garden winter machine harbour teacher morning " \
			"window mountain story lantern village sailor book", noun)
		nv = split("remembers follows finds carries leaves watches answers keeps", verb)
		nc = split("and;but;while;because;until", joint, ";")
		s = 12345 + 7919 * s
		for (had = 0; had < n; had += length(line) + 1) {
			line = clause() " " pick(joint, nc) " " clause() "."
			line = toupper(substr(line, 1, 1)) substr(line, 2)
			print line
		}
	}' | head -c "$1"
}

# examples PAGE: the shell lines of the EXAMPLES of a manual page, in order.
examples() {
	awk '
		/^\.Sh/ { inside = $2 == "EXAMPLES" }
		inside && /^\.Bd -literal/ { block = 1; next }
		/^\.Ed/ { block = 0 }
		block {
			gsub(/\\&/, ""); gsub(/\\\(aq/, "\047"); gsub(/\\\(dq/, "\""); gsub(/\\\(ha/, "^")
			gsub(/\\\(ti/, "~"); gsub(/\\-/, "-"); gsub(/\\e/, "\\")
			sub(/^\$ /, "")
			print
		}' "$1"
}

complain() {
	printf '%s\n' "$@" "--- status: ${status-none}" "--- stdout:" "${output-}" "--- stderr:" \
		"${stderr-}" >&2
	return 1
}

# The checks below look at the last `run --separate-stderr`.
expect_status() {
	[ "$status" -eq "$1" ] || complain "expected status $1"
}
expect_stdout() {
	[ "$output" = "$1" ] || complain "expected on stdout: '$1'"
}
expect_stdout_like() {
	[[ $output =~ $1 ]] || complain "expected on stdout something like: $1"
}
expect_no_stderr() {
	[ -z "$stderr" ] || complain "expected nothing on stderr"
}
expect_stderr_like() {
	[[ $stderr =~ $1 ]] || complain "expected on stderr something like: $1"
}
# Exactly one line, and it matches.
expect_stderr_line() {
	[ "${#stderr_lines[@]}" -eq 1 ] || complain "expected one line on stderr"
	expect_stderr_like "$1"
}

expect_same() {
	cmp -- "$1" "$2" >&2 || complain "expected the same bytes in $1 and $2"
}
expect_differ() {
	! cmp -s -- "$1" "$2" || complain "expected different bytes in $1 and $2"
}
expect_no_file() {
	local f
	for f in "$@"; do
		if [ -e "$f" ] || [ -L "$f" ]; then
			complain "did not expect a file $f"
		fi
	done
}
# No temporary names are left in the directory.
expect_no_temporary() {
	local left
	left=$(find "${1:-.}" -name '.*.tmp')
	[ -z "$left" ] || complain "left behind: $left"
}

# in_time COMMAND...: a program that may go on for good when it should not, as a run that ought to be refused:
# after some minutes it is stopped, with a status that no test expects.
in_time() {
	timeout -k 30 300 "$@"
}

# flip_bit FILE BIT: changes one bit in place, counted from the lowest of the first byte.
flip_bit() {
	local at=$(($2 / 8)) byte
	byte=$(od -An -tu1 -j "$at" -N 1 "$1")
	printf '%b' "\\x$(printf %02x $((byte ^ 1 << $2 % 8)))" |
		dd of="$1" bs=1 seek="$at" conv=notrunc status=none
}

# small_disk SIZE COMMAND...: runs it in an empty file system of that size (as 256k), which is gone
# afterwards. Say need_small_disk first: a skip inside of `run` would not be heard.
need_small_disk() {
	small_disk 4k true 2>/dev/null || skip "no right to mount a small file system"
}
small_disk() {
	local size=$1 dir=$BATS_TEST_TMPDIR/small-disk namespaces=-m
	shift
	mkdir -p "$dir"
	[ "$(id -u)" -eq 0 ] || namespaces=-rm
	unshare $namespaces sh -c 'mount -t tmpfs -o "size=$1" tmpfs "$2" && cd "$2" && shift 2 &&
		exec "$@"' sh "$size" "$dir" "$@"
}

# Permission tests mean nothing to the superuser.
need_ordinary_user() {
	[ "$(id -u)" -ne 0 ] || skip "root may do anything"
}
# ulimit -v and sanitizers do not go together.
need_plain_build() {
	[ -z "${DL_SANITIZE-}" ] || skip "the sanitizers reserve terabytes of addresses"
}
# Data beside the repository, absent from a clone.
need_shared() {
	shared=${DL_SHARED:-$repo/../shared}
	[ -e "$shared/$1" ] || skip "no shared/$1"
}
