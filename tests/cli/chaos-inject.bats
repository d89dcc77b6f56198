# dl-chaos inject: real processes, broken by a plan.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' 'decay_steps 0' >small.conf
	printf '%s\n' 'd_model 32' 'layers 2' 'heads 2' 'ff 64' 'context 64' 'batch 16' 'decay_steps 0' >larger.conf
	corpus 30000 >text.txt
}
setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$BATS_FILE_TMPDIR"/{small.conf,larger.conf,text.txt} .
}
teardown() {
	[ -z "${injector-}" ] || kill -KILL "$injector" 2>/dev/null || true
}

# plan LINE...: plan.tsv, words for columns.
plan() {
	{
		echo 'at fault process lasts value file'
		printf '%s\n' "$@"
	} | tr ' ' '\t' >plan.tsv
}
# wait_for CONDITION: half a minute at most.
wait_for() {
	for _ in {1..300}; do
		! eval "$1" 2>/dev/null || return 0
		sleep 0.1
	done
	complain "in vain: $1" "$(cat err 2>/dev/null)"
}
gone() { ! kill -0 "$1" 2>/dev/null; }
# What ran how often: the log has a line for each start.
starts() { wc -l <"chaos/log/$1.log"; }
# faults: the table without comments, and without its last column.
faults() { grep -v '^#' chaos/faults.tsv | cut -f 1-6; }
# in_background OPTION...: its pid in $injector. As from a terminal, where SIGINT counts.
in_background() {
	env --default-signal=INT dl-chaos inject "$@" >out 2>err </dev/null 3>&- &
	injector=$!
}
ends() {
	status=0
	wait "$injector" || status=$?
	injector=
	[ "$status" -eq "$1" ] || complain "status is not $1" "$(cat out err)"
}

@test "a command that nothing breaks runs to its end, its words in a log" {
	run -0 --separate-stderr dl-chaos inject --mtbf 1d -- sh -c 'echo "$PWD"; echo words >&2'
	expect_no_stderr
	expect_stdout_like '^finished       holds      all 1 processes
faults         0 +
sh             [0-9.]+ % +up; killed 0, died 0 times$'
	[ "$(cat chaos/log/sh.log)" = "$(pwd)
words" ]
	[ "$(cat chaos/faults.tsv)" = $'# dl-chaos inject\nat\tfault\tprocess\tlasts\tvalue\tfile\twhat' ]
	[ "$(ls chaos)" = $'faults.tsv\nlog' ]
}

@test "one that is killed starts again after its repair, and is not blamed" {
	plan '0.2 kill sh 0.1 - -' '0.6 kill sh 0.1 - -'
	run -0 --separate-stderr dl-chaos inject --plan plan.tsv -- \
		sh -c 'echo on; [ "$(wc -l <chaos/log/sh.log)" -ge 3 ] || exec sleep 600'
	expect_no_stderr
	expect_stdout_like 'faults         2          kill 2
sh             [0-9.]+ % +up; killed 2, died 0 times$'
	[ "$(starts sh)" -eq 3 ]
	[ "$(grep -c '^# .* sh starts again$' chaos/faults.tsv)" -eq 2 ]
	faults >have
	expect_same have plan.tsv
}

@test "one that dies by itself is started again, told and counted" {
	run -0 --separate-stderr dl-chaos inject --mtbf 1d -- \
		sh -c 'echo on; [ "$(wc -l <chaos/log/sh.log)" -ge 2 ] || { echo "out of luck"; exit 1; }'
	expect_stderr_line '^dl-chaos: sh: exit status 1: out of luck; starts again in 1 s$'
	expect_stdout_like 'died 1 times$'
	grep -q '^# .* sh exit status 1$' chaos/faults.tsv
}

@test "one that is beyond help breaks the first invariant" {
	run -1 --separate-stderr dl-chaos inject --mtbf 1d -- sh -c 'echo "wrong" >&2; exit 2'
	expect_stdout_like '^finished       BROKEN     sh: exit status 2: see /.*/chaos/log/sh\.log'
	expect_stderr_like 'dl-chaos: 1 invariant does not hold: see the report, and chaos$'
}

@test "one that is paused waits, and one that is slowed runs for its share" {
	plan '0.2 pause counter 1.5 - -'
	echo "counter sh -c 'while :; do echo; sleep 0.05; done'" >list
	in_background --plan plan.tsv --list list
	wait_for 'grep -q pause chaos/faults.tsv'
	sleep 0.2
	had=$(starts counter)
	sleep 0.3
	[ "$(starts counter)" -eq "$had" ]
	wait_for '[ "$(starts counter)" -gt "$had" ]'
	kill -TERM "$injector"
	ends 143
	rm -r chaos
	plan '0 slow sleep 600 0.25 -'
	run -0 --separate-stderr dl-chaos inject --plan plan.tsv --for 2s -- sleep 600
	share=$(sed -nE 's/^sleep +([0-9.]+) % .*/\1/p' <<<"$output")
	awk -v x="$share" 'BEGIN { exit !(x > 5 && x < 60) }' || complain "a quarter was asked for"
}

@test "one whose disk is full sees its writes fail, and lives" {
	plan '0.3 full sh 1 - -'
	run -0 --separate-stderr dl-chaos inject --plan plan.tsv -- sh -c '
		until ! echo x 2>/dev/null >here; do sleep 0.05; done
		until echo x 2>/dev/null >here; do sleep 0.05; done'
	expect_stdout_like 'full 1'
}

@test "a clock is put wrong, and right again" {
	[ -n "$(find /usr/lib* -name libfaketimeMT.so.1 -print -quit)" ] || skip "no libfaketime"
	need_plain_build
	plan '0.2 clock sh 3 -7200 -'
	run -0 --separate-stderr dl-chaos inject --plan plan.tsv -- sh -c '
		start=$(date +%s)
		until [ $(($(date +%s) - start)) -lt -7000 ]; do sleep 0.1; done
		until [ $(($(date +%s) - start)) -gt -7000 ]; do sleep 0.1; done'
	expect_stdout_like 'clock 1'
}

@test "a list: all run; on those that are named faults fall" {
	printf '%s\n' '# NAME COMMAND' "a sh -c 'sleep 0.5; echo \"one word\"'" 'b sleep 600' >list
	run -0 --separate-stderr dl-chaos inject --mtbf 0.3s --repair 0.2s --on b --for 1.5s --list list
	expect_stdout_like '^finished       not asked  it was time to stop'
	expect_stdout_like 'a              [0-9.]+ % +up; killed 0,'
	expect_stdout_like 'b              [0-9.]+ % +up; killed [1-9]'
	[ "$(cat chaos/log/a.log)" = 'one word' ]
	run -2 --separate-stderr dl-chaos inject --on a,c --out other --list list
	expect_stderr_line "option --on: there is no process 'c'"
}

@test "a burst of faults keeps it from neither the time nor a request to stop" {
	{ echo 'at fault process lasts value file'; yes '0 pause sleep 0 - -' | head -n 300000; } | tr ' ' '\t' >plan.tsv
	run -0 --separate-stderr in_time dl-chaos inject --for 0.1s --plan plan.tsv -- sleep 600
	expect_stdout_like '^finished       not asked  it was time to stop'
	[ "$(wc -l <chaos/faults.tsv)" -lt 300000 ]
	in_background --plan plan.tsv --out other -- sleep 600
	wait_for '[ -s other/faults.tsv ]'
	kill -TERM "$injector"
	ends 143
	[ "$(wc -l <other/faults.tsv)" -lt 300000 ]
}

@test "the same seed is the same plan, which may be read and given back" {
	echo 'a sleep 1
b sleep 1' >list
	dl-chaos inject --print --seed 5 --for 10m --mtbf 5s --faults kill:3,pause,slow,full --list list >one
	dl-chaos inject --print --seed 5 --for 10m --mtbf 5s --faults kill:3,pause,slow,full --list list >two
	dl-chaos inject --print --seed 6 --for 10m --mtbf 5s --faults kill:3,pause,slow,full --list list >three
	dl-chaos inject --print --plan one --list - <list >four
	expect_same one two
	expect_differ one three
	expect_same one four
	[ "$(wc -l <one)" -gt 60 ]
	expect_no_file chaos
	plan # none is a plan, too
	[ "$(dl-chaos inject --print --plan plan.tsv -- sleep 1 | wc -l)" -eq 1 ]
}

@test "Ctrl-C: nothing is left, not even what is stopped, and the report is there" {
	plan '0.1 pause a 600 - -'
	printf '%s\n' "a sh -c 'echo \$\$; exec sleep 600'" "b sh -c 'echo \$\$; sleep 600 & wait'" >list
	in_background --plan plan.tsv --list list --json
	wait_for 'grep -q pause chaos/faults.tsv && [ -s chaos/log/b.log ]'
	kill -INT "$injector"
	ends 130
	grep -q '"finished":{"holds":null,"why":"stopped by a signal"}' out
	gone "$(cat chaos/log/a.log)" && gone "$(cat chaos/log/b.log)"
}

@test "killed itself, it takes even a stopped child along" {
	plan '0.1 pause a 600 - -'
	echo "a sh -c 'echo \$\$; exec sleep 600'" >list
	in_background --plan plan.tsv --list list
	wait_for 'grep -q pause chaos/faults.tsv'
	kill -KILL "$injector"
	ends 137
	wait_for 'gone "$(cat chaos/log/a.log)"'
}

@test "a run under everything there is: what must hold holds" {
	need_plain_build
	faults=kill,pause,slow,full,cut,delay,reorder,truncate,flip,duplicate,replay
	run -0 --separate-stderr timeout 300 dl-chaos inject --mtbf 0.3s --repair 0.5s --lasts 0.5s --from 0.5s --seed 1 \
		--faults $faults -- dl-run -m 2 --corpus text.txt -c larger.conf -P 2 -H 8 --keep 0 --lease 5s \
		--target-steps 800 run
	expect_stdout_like '^finished       holds      global step [0-9]+, ckpt/[0-9]+\.ckpt
replay         holds      ([0-9]+) of ([0-9]+) versions, bit for bit
ledger         holds      2 learners balance
authentic      holds      ([0-9]+) of ([0-9]+) accepted answers verified
faults '
	[ "${BASH_REMATCH[1]}" -eq "${BASH_REMATCH[2]}" ] && [ "${BASH_REMATCH[3]}" -eq "${BASH_REMATCH[4]}" ]
	expect_stdout_like 'goodput        [0-9.]+ %'
	[ "$(ls chaos)" = $'faults.tsv\nlog' ]
	run -0 --separate-stderr dl-sync -r run --replay
	# The run is over: what is asked of it is asked again.
	run -0 --separate-stderr dl-chaos inject --out again --json -- dl-run -m 2 run
	expect_stdout_like '"replay":\{"holds":true,'
}

@test "the report tells what became of all tokens; one learner balances" {
	timeout 300 dl-run -m 1 --corpus text.txt -c small.conf -P 2 -H 8 --target-steps 40 run >/dev/null
	dl-run -m 1 --print run >list
	run -0 --separate-stderr dl-chaos inject --list list
	expect_stdout_like '
ledger         holds      1 learner balances
'
	expect_stdout_like '
merged tokens  [0-9.]+ % +of [0-9]+ trained; [0-9]+ refused, [0-9]+ open, [0-9]+ lost, [0-9]+ under way; answers: '
	run -0 --separate-stderr dl-chaos inject --out again --json --list list
	awk -F : 'BEGIN { RS = "[,{}]" } /^"tokens_trained"/ { all = $2 } /^"tokens_(merged|refused|open|lost|under)/ { sum += $2 }
		END { if (!all || sum < all - 1 || sum > all + 1) exit 1 }' <<<"$output"
}

@test "a run that is over before anybody looks has tokens, but no goodput" {
	timeout 300 dl-run -m 1 --corpus text.txt -c small.conf -P 2 -H 8 --target-steps 40 run >/dev/null
	dl-run -m 1 --print run >list
	run -0 --separate-stderr dl-chaos inject --list list
	expect_stdout_like '
goodput        not known  nobody was seen to train in the 0\.0 s of the run
uptime         not known
downtime       not known
.*
merged tokens  100\.0 % '
	run -0 --separate-stderr dl-chaos inject --out again --json --list list
	expect_stdout_like '"goodput":null,"uptime":null,.*"trained_seconds":null,"below_quorum":null,"stood_still":null,'
}

@test "the directory takes no name among the run's own files" {
	dl-init -r run -c small.conf -P 2
	cp -r run before
	echo "learner dl-learn -r $PWD/run -i a -d text.tok" >list
	for place in run/head run/manifest run/learner/new run/learner/new/ run/global/../syncer/x; do
		run -2 --separate-stderr dl-chaos inject --out "$place" --list list
		expect_stdout ""
		expect_stderr_line '^dl-chaos: run/[a-z./]*: is .*of the run, '
	done
	diff -r before run
}

@test "where the table can't be written it is named, and nothing is left" {
	no_space() { (trap '' XFSZ && ulimit -f 0 && exec dl-chaos inject "$@" 2>&1 | cat); }
	for _ in 1 2; do
		run no_space --out ch -- sleep 1
		[[ $output =~ ^dl-chaos:\ .*/ch/faults\.tsv:\ write:\ File\ too\ large$ ]] || complain "what is wrong?"
		expect_no_file ch
	done
	dl-init -r run -c small.conf -P 2
	new_home stranger
	run -3 --separate-stderr dl-chaos inject --out ch -- dl-learn -r run -i a -d text.tok
	expect_no_file ch
}

@test "a run whose answers were changed, and whose books are wrong, does not hold" {
	timeout 300 dl-run -m 2 --corpus text.txt -c small.conf -P 2 -H 8 --keep 0 --target-steps 40 run >/dev/null
	dl-run -m 2 --print run >list
	for delta in run/learner/learner-0/f000.*.delta; do
		flip_bit "$delta" 9000
	done
	run -1 --separate-stderr dl-chaos inject --list list
	expect_stdout_like 'replay         BROKEN     .*
ledger         holds '
	expect_stdout_like 'authentic      BROKEN     learner/learner-0/f000\.[0-9]+\.delta: '
	expect_stderr_like 'dl-chaos: 2 invariants do not hold: see the report, and chaos$'
}

@test "what cannot be is status 2, one line, and nothing is made" {
	refused() {
		run -2 --separate-stderr dl-chaos inject "${@:2}"
		expect_stdout "" && expect_stderr_line "^dl-chaos: $1" && expect_no_file chaos
	}
	echo 'a sleep 1' >list
	refused 'what to run\? give -- COMMAND, or --list FILE$'
	refused 'a command or --list, not both$' --list list -- sleep 1
	refused 'no-such-thing: not found' -- no-such-thing
	refused "option --faults: 'kil' is no kind of fault; did you mean 'kill'\?" --faults kil -- sleep 1
	refused "option --faults: kill: '0' is no weight: give 1 to 1000000" --faults kill:0 -- sleep 1
	refused "fault 'cut' hits nobody: no process that may be hit is a learner" --faults all -- sleep 1
	refused "option --mtbf" --mtbf -5s -- sleep 1
	refused "option --mtbf" --mtbf 0 -- sleep 1
	refused "option --repair" --repair nan -- sleep 1
	refused "the mean time between faults is 1.728e\+08 s: give more than nothing" --mtbf 2000d -- sleep 1
	refused "option --slow" --slow 1 -- sleep 1
	refused 'a plan has no end: give --for$' --print -- sleep 1
	refused 'a plan of about 3.15e\+08 faults, more than 1e\+06: ' --print --for 365d --mtbf 0.1s -- sleep 1
	refused 'a plan of about 3.15e\+08 faults, more than 1e\+06: ' --for 365d --mtbf 0.1s -- sleep 1
	refused 'the mean time between faults is 2e-08 s: give 0.001 s or more' --mtbf 2e-8 -- sleep 1
	printf 'a sleep 1\nb "x' >broken
	refused 'broken: line 2: a quotation that does not end$' --list broken
	plan '-1 kill sleep 1 - -'
	refused "plan.tsv: line 2: at is '-1': give a number from 0 to " --plan plan.tsv -- sleep 1
	plan '1 kill sleep 1 - -' '1 kill slep 1 - -'
	refused "plan.tsv: line 3: there is no process 'slep'; did you mean 'sleep'\?" --plan plan.tsv -- sleep 1
	plan '1 cut sleep 1 - -'
	refused "plan.tsv: 'cut' hits 'sleep', which is no learner" --plan plan.tsv -- sleep 1
	head -c 100 /dev/zero >plan.tsv
	refused "plan.tsv: a NUL byte: this is no plan$" --plan plan.tsv -- sleep 1
	run -1 --separate-stderr dl-chaos inject --list nowhere
	expect_stderr_line '^dl-chaos: nowhere: No such file'
	mkdir chaos
	run -2 --separate-stderr dl-chaos inject -- sleep 1
	expect_stderr_line '^dl-chaos: chaos: is there already: give another --out, or remove it$'
}

# bats test_tags=slow
@test "a longer run of four learners, a failure every two seconds, the syncer's too: what must hold holds" {
	run -0 --separate-stderr timeout 900 dl-chaos inject --mtbf 2s --repair 3s --lasts 3s --seed 4 --faults \
		kill:4,pause,slow,full,cut,delay,reorder,truncate,flip,duplicate,replay -- dl-run -m 4 --corpus text.txt \
		-c larger.conf -P 4 -H 16 --keep 0 --lease 5s --target-steps 800 run
	expect_stdout_like 'replay         holds .*
ledger         holds .*
authentic      holds '
}
