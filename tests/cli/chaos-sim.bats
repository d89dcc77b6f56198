# dl-chaos sim: clusters that nobody can afford.

load helper

setup() {
	cd "$BATS_TEST_TMPDIR" || return
}

teardown() {
	[ -z "${runner-}" ] || kill -KILL "$runner" 2>/dev/null || true
}

# field NAME: of the line of JSON in $output.
field() {
	sed -n "s/.*\"$1\":\([^,}]*\).*/\1/p" <<<"$output"
}

@test "a sweep is a table, a line for each cell" {
	run -0 --separate-stderr dl-chaos sim --mode lockstep,elastic,diloco,decoupled --chips 300k,600k,...,2.4M \
		--learners 1,4 --for 10m
	expect_no_stderr
	[ "${#lines[@]}" -eq $((1 + 4 + 4 + 8 + 8)) ]
	expect_stdout_like '^MODE       CHIPS  M  GOODPUT   UPTIME  ANSWERS  STALE      H  MERGED      LINK    SYNCER
lockstep    300k  1 '
	expect_stdout_like 'decoupled   2.4M  4 '
}

@test "more seeds have intervals" {
	run -0 --separate-stderr dl-chaos sim --for 10m --seeds 3
	expect_stdout_like 'decoupled +1.2M  8  [0-9.]+ % \+- +[0-9.]+ '
	run -0 --separate-stderr dl-chaos sim --for 10m --seeds 3 --json
	expect_stdout_like '"seeds":3,"goodput":0\.[0-9]+,"goodput_ci":0\.0[0-9]+,'
}

@test "--tsv has a name for each column" {
	run -0 --separate-stderr dl-chaos sim --for 10m --tsv --learners 2,4 --seeds 2
	awk -F '\t' 'NR == 1 { n = NF } NF != n { bad = 1 } END { exit bad || NR != 3 || n != 37 }' <<<"$output"
	[[ ${lines[0]} == mode$'\t'chips$'\t'learners$'\t'goodput$'\t'goodput_ci$'\t'* ]]
}

@test "same seed, same numbers, for any number of threads; another seed, others" {
	dl-chaos sim --for 10m --json --seeds 4 --learners 2,4 >one
	dl-chaos sim --for 10m --json --seeds 4 --learners 2,4 -j 3 >three
	dl-chaos sim --for 10m --json --seeds 4 --learners 2,4 --seed 2 >other
	cmp one three
	run ! cmp -s one other
}

@test "a trace is whole, and the same for the same seed" {
	dl-chaos sim --for 200 --trace one -q >table
	dl-chaos sim --for 200 --trace two >table2
	cmp one two
	cmp table table2
	[[ $(head -n 1 one) == "0 trace format=1 mode=decoupled learners=8 fragments=24 "* ]]
	run -0 tail -n 1 one
	expect_stdout_like " end events=$(($(wc -l <one) - 2))\$"
}

@test "a trace on standard output is all that is there" {
	dl-chaos sim --for 200 --trace one -q >table
	run -0 --separate-stderr dl-chaos sim --for 200 --trace -
	expect_no_stderr
	expect_same one <(printf '%s\n' "$output")
	run -2 --separate-stderr dl-chaos sim --for 200 --trace - --json
	expect_stdout ""
	expect_stderr_line '^dl-chaos: --trace -: standard output has the trace, so there is no table for --json$'
	run -1 --separate-stderr sh -c 'dl-chaos sim --for 200 --trace - >/dev/full'
	expect_stderr_line '^dl-chaos: standard output: .*No space left'
}

@test "a trace is for one simulation" {
	run --separate-stderr dl-chaos sim --for 60 --seeds 2 --trace x
	expect_status 2
	expect_stdout ""
	expect_stderr_line "^dl-chaos: --trace is for one simulation, not for 2$"
	[ ! -e x ]
}

@test "a trace that can't be written leaves nothing" {
	run --separate-stderr dl-chaos sim --for 60 --trace no/x
	expect_status 1
	expect_stderr_line "^dl-chaos: no/x: No such file or directory$"
	run --separate-stderr sh -c 'dl-chaos sim --for 60 >/dev/full'
	expect_status 1
	expect_stderr_line "No space left"
}

@test "learners that come for a part of the time save it" {
	run -0 dl-chaos sim -m 4 --mtbi never --budget 20G --json
	alone=$(field budget_seconds)
	run -0 dl-chaos sim -m 4 --mtbi never --budget 20G --join 12@200-700 --json
	with=$(field budget_seconds)
	awk -v a="$alone" -v w="$with" 'BEGIN { exit !(w <= 0.62 * a && w > 0.2 * a) }'
}

# refused MESSAGE OPTION...
refused() {
	local message=$1
	shift
	run --separate-stderr timeout 20 dl-chaos sim "$@"
	expect_status 2 && expect_stdout "" && expect_stderr_line "^dl-chaos: .*$message"
}

@test "what can't be is refused in one line, with status 2" {
	refused "9 learners need as many chips, there are 8" --chips 8 -m 9
	refused "the quorum is 1 to the number of learners, 2; not 3" -m 2 -K 3
	refused "option --mtbi: '-1s' is no time" --mtbi=-1s
	refused "time between failures of a chip" --mtbi 0
	refused "option --scale-up: '-5'" --scale-up=-5
	refused "option --repair: '' is no time" --repair=-5
	refused "the longest repair is no shorter" --repair 90m-30m
	refused "time of a repair" --repair never
	refused "'chaos' is no mode: those are lockstep" --mode chaos
	refused "',' is no list" --mode=,
	refused "option --chips: '0x' is no number" --chips 0x
	refused "option --chips: 1e12 is more than" --chips 1e12
	refused "option --learners: ',2' is no list" --learners 1,,2
	refused "2.5 learners" --learners 2.5
	refused "stands between numbers that rise" --chips 1k,...,2k
	refused "no fewer are invited than the quorum" -K 3 --invite 2
	refused "a speed must be" --speeds 1,0
	refused "option --speeds: 'fast' is no number" --speeds fast
	refused "slower" --uneven 1
	refused "spread" --spread 2
	refused "'now' is no rule of adoption" --adopt now
	refused "is not like 2@6h-18h" --join 2
	refused "leave later than they come" --join 2@2h-1h
	refused "only where there are learners" --mode elastic --join 2@1h
	refused "the time of a repair must be 0 to" --repair 1-never
	refused "fragments" -P 0
	refused "the interval H must be 1 to" -H 0
	refused "the overlap tau must be 1 to 4096" --tau 5000
	refused "option --learners: '-1' is no number" -m -1
	refused "the quorum is 1 to the number of learners, 2; not 3" -m 4,2 -K 3
	refused "option --step: '-1' is no time" --step -1
	refused "option --adopt: 'mix:0.5' is no rule" --adopt mix:0.5
	refused "option --mode needs a value" --mode
	refused "option --seed: 'x' is not a whole number" --seed x
	refused "whole number" -K 1.5
	refused "bandwidth" --bandwidth 0
	refused "length" --for never
	refused "more than 1e\+11 steps and failures" --step 0.000001 --for 365d
	refused "more than 1e\+11 steps and failures" --mtbi 0.001 --chips 1G
	refused "has no use for 'x'" x
	refused "--json or --tsv" --json --tsv
	refused "unknown option '--chip-count'" --chip-count 8
}

@test "each option of sim is in the manual" {
	local name
	command -v mandoc >/dev/null || skip "no mandoc"
	mandoc -Tascii -O width=1000 "$repo/man/dl-chaos.1" | sed 's/.\x08//g' >manual
	for name in $(dl-chaos sim -h | sed -n 's/^  \(-., \)\? *--\([a-z0-9-]*\).*/\2/p'); do
		grep -q -e "--$name\b" manual || { echo "--$name"; false; }
	done
	dl-chaos sim -h | awk 'length() > 80 { print; bad = 1 } END { exit bad }'
}

# ---- like a real run ----

# answers LEARNER: so far.
answers() {
	[ ! -e run/syncer/tape.1 ] || grep -c " answer .*learner=$1 " run/syncer/tape.1 || true
}
# stopped once there are answers enough to fit something, however long that takes
small_run() {
	printf '%s\n' 'd_model 64' 'layers 2' 'heads 2' 'ff 128' 'context 64' 'batch 4' >small.conf
	corpus 30000 >text.txt
	dl-run -q -m 2 -j 1 --corpus text.txt -c small.conf -P 2 -H 8 --target-steps 1000000 run >out 2>err 3>&- &
	runner=$!
	for _ in {1..600}; do
		[[ $(answers learner-0) -lt 15 || $(answers learner-1) -lt 15 ]] || break
		sleep 0.1
	done
	kill -TERM "$runner"
	wait "$runner" || true
	runner=
}

@test "a real run is fitted, and simulated with another quorum, more learners, or fewer" {
	small_run
	run -0 --separate-stderr dl-chaos sim --like run -v
	expect_no_stderr
	expect_stdout_like '^LEARNER +STEP +SPEED +FAILURES +AWAY
learner-[01] +[0-9.]+ s +[0-9.]+ +0 +0.0 s
learner-[01] .*
spread of steps [0-9.]+, latency [0-9.]+ s, merge [0-9.]+ s

MODE .*
measured  +2  2  .*
decoupled  +2  2 '
	run -0 --separate-stderr dl-chaos sim --like run -m 2,8 -K 2 --for 1m --tsv
	[ "${#lines[@]}" -eq 4 ]
	[[ ${lines[3]} == decoupled$'\t'8$'\t'8$'\t'* ]]
	run -0 --separate-stderr dl-chaos sim --like run --without learner-1 --trace trace --json
	expect_stdout_like '"mode":"measured","chips":[12],"learners":[12],"seeds":0,.*
.*"mode":"decoupled","chips":1,"learners":1,'
	[ -s trace ]
	cp -r run before
	for place in run/manifest run/head run/syncer/tape.1 run/global/new run/ckpt/new; do
		refused "$place: is .* of the run, " --like run --for 60 --trace "$place"
	done
	diff -r before run
	refused "no learner of the run is called 'learner-7'" --like run --without learner-7
	refused "no learner that was there all the time is left" --like run --without learner-0,learner-1
	refused "the quorum is 1 to the number of learners, 1; not 2" --like run --without learner-1 -K 2
	refused "not --chips" --like run --chips 8
	dl-key gen -o stranger
	mkdir nobody
	run --separate-stderr env DL_KEY=stranger.key DL_TRUST=nobody dl-chaos sim --like run
	expect_status 3
	expect_stderr_line "not trusted"
}

@test "a run that tells nothing is status 1, and what is none, too" {
	refused "--without, --key and --trust go with --like" --without a
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' >small.conf
	dl-init -r run -c small.conf -P 2
	run --separate-stderr dl-chaos sim --like run
	expect_status 1
	expect_stdout ""
	expect_stderr_line "^dl-chaos: run: .*nothing to fit"
	mkdir empty
	run --separate-stderr dl-chaos sim --like empty
	expect_status 1
	expect_stderr_line "^dl-chaos: empty"
}
