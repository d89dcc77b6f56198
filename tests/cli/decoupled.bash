# Whole runs of dl-learn -r and dl-sync on a model so small that a step takes a millisecond:
# `load decoupled` behind `load helper`. All waiting is for something to be seen, never for a time.
#
#     small_run run --target-steps 100
#     learn a; learn b
#     sync_run
#     ended a b sync
#     expect_sound run

# Shards part.0 to part.3, a valid one, and the configuration, for all tests of a file.
setup_runs() {
	cd "$BATS_FILE_TMPDIR" || return
	corpus 60000 >text.txt
	dl-data --split 4 --holdout 0.1 --block 512 -o part text.txt
	printf '%s\n' 'd_model 32' 'layers 2' 'heads 2' 'ff 64' 'context 64' 'batch 16' 'warmup 10' \
		'decay_steps 0' 'lr 0.01' >small.conf
}

# A process's number under its name; what it says in NAME.log.
declare -gA pids

setup_run() {
	cd "${BATS_TEST_TMPDIR:-$BATS_FILE_TMPDIR}" || return
	pids=()
	patience=120 # seconds until something that never comes is given up
	[ -z "${DL_SANITIZE-}" ] || patience=900 # a step takes half a second on a busy machine then
}
teardown() {
	local name
	for name in "${!pids[@]}"; do
		kill -KILL "${pids[$name]}" 2>/dev/null || :
	done
	[ ! -e started ] || while read -r name; do
		kill -KILL "$name" 2>/dev/null || :
	done <started
}

# small_run RUN [OPTION...]: versions are all kept, and everything is quick.
small_run() {
	local run=$1 usual
	shift
	for usual in "-P 4" "-H 10" "--keep 0" "--lease 2s"; do
		# shellcheck disable=SC2086 # two words
		[[ " $* " == *" ${usual% *} "* ]] || set -- $usual "$@"
	done
	dl-init -r "$run" -c "$BATS_FILE_TMPDIR/small.conf" --seed 1 "$@"
}

# start NAME COMMAND...: in the background; its words go to NAME.log.
start() {
	local name=$1
	shift
	"$@" >>"$name.out" 2>>"$name.log" </dev/null 3>&- &
	pids[$name]=$!
	echo $! >>started
}
# learn NAME [OPTION...] and sync_run [OPTION...] in the directory `run`; words in $under go before.
learn() {
	local name=$1 n=3
	shift
	case $name in a) n=0 ;; b) n=1 ;; c) n=2 ;; esac
	[[ $* == *--max-stale* ]] || set -- --max-stale 1000000 "$@"
	# shellcheck disable=SC2086 # words on purpose
	start "$name" ${under-} dl-learn -v -r "${run-run}" -i "$name" -j 1 -d "$BATS_FILE_TMPDIR/part.$n.tok" "$@"
}
sync_run() {
	# shellcheck disable=SC2086 # words on purpose
	start "${sync-sync}" ${under-} dl-sync -v -r "${run-run}" "$@"
}

# until_true COMMAND...: again and again until it succeeds.
until_true() {
	local deadline=$((SECONDS + patience))
	until "$@" >/dev/null 2>&1; do
		[ "$SECONDS" -lt "$deadline" ] || {
			complain "this never came: $*" "$(tail -n 5 -- *.log 2>/dev/null)"
			return 1
		}
		sleep 0.05
	done
}
dead() {
	! kill -0 "${pids[$1]}" 2>/dev/null
}
# ends NAME STATUS: it leaves by itself, with that status.
ends() {
	local ended=0
	until_true dead "$1" || return
	wait "${pids[$1]}" || ended=$?
	unset "pids[$1]"
	[ "$ended" -eq "$2" ] || complain "$1 left with status $ended, not $2" "$(tail -n 20 "$1.log")"
}
ended() {
	local name
	for name; do
		ends "$name" 0 || return
	done
}
# stopped NAME...: asked to leave, all of them leave with status 0. A test in which something happens while a run goes
# on gives the run no end and stops it so: it would be at its end before on a machine that is quick enough.
stopped() {
	local name
	for name; do
		kill -TERM "${pids[$name]}" || return
	done
	ended "$@"
}
# kill_hard NAME: and wait until it is dead, without a word of the shell's.
kill_hard() {
	kill -KILL "${pids[$1]}"
	wait "${pids[$1]}" 2>/dev/null || :
	unset "pids[$1]"
}

# The lines of the tape, all epochs, as text. tape_has [N] PATTERN: at least N lines match.
tape() {
	dl-show --tape "${run-run}" | tr -s ' '
}
tape_count() {
	tape 2>/dev/null | grep -cE -- "$1" || :
}
tape_has() {
	local n=1
	[ $# -eq 1 ] || { n=$1 && shift; }
	[ "$(tape_count "$1")" -ge "$n" ]
}
# more_merges N: N more than there are now.
more_merges() {
	local have
	have=$(tape_count ' publish ')
	until_true tape_has $((have + $1)) ' publish '
}

# What must hold of every run whatever has happened to it: each version comes out of its deltas again, bit for
# bit, and the books of the learners balance.
expect_sound() {
	run --separate-stderr in_time dl-sync -r "$1" --replay
	[ "$status" -eq 0 ] || complain "replay of $1 failed"
	run --separate-stderr dl-show --ledger "$1"
	[ "$status" -eq 0 ] || complain "the books of $1 do not balance"
}

# ready_run: `ready`, a run of two fragments and a quorum of two whose first rounds are open and answered by a
# and b, and nobody at work: the next dl-sync --once merges both. For setup_file.
ready_run() {
	setup_run
	small_run ready -P 2 -K 2
	run=ready learn a
	run=ready learn b
	until_true [ -e ready/learner/a/beat ]
	until_true [ -e ready/learner/b/beat ]
	until_true answered ready 2
	kill -TERM "${pids[a]}" "${pids[b]}"
	ended a b
}
# answered RUN N: are there N deltas of each of a and b? Calls are made on the way, and no pass more than that: it
# would merge.
answered() {
	[ "$(run=$1 tape_count ' call ')" -ge "$2" ] || dl-sync -q -r "$1" --once || :
	[ "$(find "$1/learner/a" "$1/learner/b" -name 'f*.delta' | wc -l)" -ge $((2 * $2)) ]
}
# What was merged into what, without what differs from try to try.
merged() {
	run=$1 tape | sed -nE 's/.* publish round=[0-9]+ (fragment=f[0-9]+ version=[0-9]+) .*(content=[^ ]*).*/\1 \2/p' | sort
}
