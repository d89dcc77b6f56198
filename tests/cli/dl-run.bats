# dl-run: a whole run on one machine.
# shellcheck disable=SC2030,SC2031 # variables of a test are for that test

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' 'decay_steps 60' >small.conf
	corpus 30000 >text.txt
	# dl-run beside children that do as they are told: what comes first in plan.NAME, line by line.
	mkdir stubs
	cp "$DL_BIN/dl-run" stubs
	cat >stubs/dl-learn <<-'END'
		#!/bin/sh
		name=syncer
		while [ $# -gt 0 ]; do
			[ "$1" != -i ] || name=$2
			shift
		done
		echo $$ >>../pids.$name
		plan=$(head -n 1 ../plan.$name)
		sed -i 1d ../plan.$name
		eval "${plan:-exec sleep 600}"
	END
	chmod +x stubs/dl-learn
	cp stubs/dl-learn stubs/dl-sync
}
setup() {
	cd "$BATS_TEST_TMPDIR" || return
	ln -s "$BATS_FILE_TMPDIR"/{small.conf,text.txt} .
	touch plan.syncer plan.learner-0 plan.learner-1
}
teardown() {
	[ -z "${runner-}" ] || kill -KILL "$runner" 2>/dev/null || true
}

# run_small OPTION...: a short run of two learners, for real; too short to be told that it missed its pace.
run_small() {
	timeout 300 dl-run -m 2 --corpus text.txt -c small.conf -P 2 -H 16 --target-steps 16 "$@" run
}
# plan NAME LINE...: what the stub of NAME does the first time, the second, ...; then it sleeps.
plan() {
	printf '%s\n' "${@:2}" >"plan.$1"
}
stubbed() {
	in_time "$BATS_FILE_TMPDIR/stubs/dl-run" -m 2 --corpus text.txt -c small.conf -P 2 "$@" run
}
# in_background OPTION...: stubbed, its pid in $runner, its words in err. As from a terminal, where SIGINT counts.
in_background() {
	env --default-signal=INT "$BATS_FILE_TMPDIR/stubs/dl-run" -m 2 --corpus text.txt -c small.conf -P 2 "$@" run \
		>out 2>err </dev/null 3>&- &
	runner=$!
	wait_for '[ -s run/log/dl-run.lock ]'
}
# ends STATUS: how the one in the background has ended.
ends() {
	status=0
	wait "$runner" || status=$?
	runner=
	[ "$status" -eq "$1" ] || complain "status is not $1" "$(cat err)"
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
all_gone() {
	local pid
	while read -r pid; do
		gone "$pid" || return 1
	done < <(cat pids.*)
}

@test "a run goes to its end, prints its last checkpoint and its held-out loss, and again when asked again" {
	run -0 --separate-stderr run_small
	expect_no_stderr
	expect_stdout_like '^checkpoint     run/ckpt/[0-9]+\.ckpt
loss           [0-9.]+
perplexity     [0-9.]+
bits per byte  [0-9.]+
tokens         [0-9]+$'
	first=$output
	ckpt=${lines[0]##* }
	[ "$(dl-eval -d run/data/2.valid.tok "$ckpt")" = "$(tail -n +2 <<<"$first")" ]
	run -0 --separate-stderr run_small
	expect_stdout "$first"
	run -0 --separate-stderr in_time dl-run -m 2 run
	expect_stdout "$first"
	dl-show --verify "$ckpt"
	run -0 in_time dl-top -1 run
	expect_stdout_like '^run run   [0-9a-f]{16}   done
step (1[6-9]|2[0-9]) of 16 '
	run -0 --separate-stderr dl-show --why run
	expect_stdout_like '^done at global step (1[6-9]|2[0-9]) of 16, '
	rm "$ckpt"
	run -1 --separate-stderr in_time dl-run -m 2 run
	expect_stderr_line "^dl-run: $ckpt: not there: dl-sync -r run makes it again$"
	in_time dl-sync -q -r run
	run -0 --separate-stderr in_time dl-run -m 2 run
	expect_stdout "$first"
}

@test "with decay_tokens a run ends at those tokens" {
	sed '/^decay_steps/d' small.conf >tokens.conf
	echo 'decay_tokens 12800' >>tokens.conf # 50 steps of two learners
	timeout 300 dl-run -q -m 2 --corpus text.txt -c tokens.conf -P 2 -H 4 run >result
	dl-show run/manifest >manifest
	grep -q '^ *target_tokens  *12800$' manifest
	grep -q '^ *target_steps  *0$' manifest
	[ "$(dl-show run/head | awk '$1 == "trained" { print $2 }')" -ge 12800 ]
}

@test "another M goes on with the same run, and the same blocks stay held out" {
	run -0 --separate-stderr timeout 300 dl-run -m 1 --corpus text.txt -c small.conf -P 2 -H 40 --target-steps 40 run
	expect_no_stderr
	first=$output
	run -0 --separate-stderr in_time dl-run -m 3 run
	expect_stdout "$first"
	expect_same run/data/1.valid.tok run/data/3.valid.tok
	dl-data -d run/data/3.0.tok | wc -c >sum
	[ "$(for k in 0 1 2; do dl-data -d run/data/3.$k.tok; done | wc -c)" -eq "$(dl-data -d run/data/1.0.tok | wc -c)" ]
}

@test "a run that could not be made leaves nothing behind, and the corrected command makes it" {
	local made=(dl-run -m 2 -c small.conf -P 2 -H 4 --target-steps 8)
	: >empty.txt
	printf xx >short.txt
	for corpus in empty.txt short.txt; do
		run --separate-stderr in_time "${made[@]}" --corpus "$corpus" run
		[ "$status" -ne 0 ] && expect_no_file run && expect_no_temporary
	done
	run -2 --separate-stderr in_time dl-run -m 2 text.txt
	expect_stderr_line '^dl-run: text\.txt: is no directory: .*--corpus'
	run -0 --separate-stderr timeout 300 "${made[@]}" --corpus text.txt run
	expect_no_temporary
}

@test "interrupted before there is a run, it leaves none, and dies by that signal" {
	mkfifo in
	dl-run -m 2 -c small.conf --target-steps 8 --corpus - run <in 2>err 3>&- &
	runner=$!
	exec 9>in
	wait_for 'ls -d .run.*.tmp/data'
	kill -TERM "$runner"
	exec 9>&-
	ends 143
	expect_no_file run && expect_no_temporary
}

@test "interrupted while others work for it, it ends, and they do" {
	local signal number
	mkfifo in
	while read -r signal number; do
		for name in run made; do # one that is there, too
			[ "$name" = run ] || [ -e made ] || dl-init -r made -c small.conf -P 2 --target-steps 8
			sleep 60 >in & # opens it, and says nothing
			writer=$!
			env --default-signal="$signal" dl-run -m 2 -c small.conf --corpus - $name <in 2>err 3>&- &
			runner=$!
			wait_for 'pgrep -P "$runner" -x dl-data'
			worker=$(pgrep -P "$runner" -x dl-data)
			SECONDS=0
			kill "-$signal" "$runner"
			ends "$number"
			kill "$writer"
			[ "$SECONDS" -lt 20 ] && gone "$worker" && expect_no_file run && expect_no_temporary
		done
	done <<<$'TERM 143\nINT 130\nHUP 129'
}

@test "interrupted while the result is measured, it ends" {
	run_small -j 1
	cp "$DL_BIN"/dl-run .
	printf '%s\n' '#!/bin/sh' 'echo $$ >evaluating; exec sleep 600' >dl-eval
	chmod +x dl-eval
	./dl-run -m 2 run 3>&- &
	runner=$!
	wait_for '[ -s run/evaluating ]'
	kill -TERM "$runner"
	ends 143
	gone "$(cat run/evaluating)"
}

@test "killed at any moment, it goes on with the same command" {
	timeout -s KILL 4 dl-run -m 2 --corpus text.txt -c small.conf -P 2 -H 4 --target-steps 60 run || true
	run -0 --separate-stderr timeout 300 dl-run -m 2 --corpus text.txt -c small.conf -P 2 -H 4 --target-steps 60 run
	expect_stdout_like '^checkpoint     run/ckpt/6[0-9]\.ckpt'
}

@test "children get their places, names, data and keys" {
	plan learner-1 'echo "$PWD" >../where; exit 2'
	plan learner-0 'exit 2'
	run -2 --separate-stderr stubbed -j 3
	[ "$(cat where)" = "$PWD/run" ]
	expect_stderr_like 'dl-run: run: no learner: see run/log/learner-0\.log$'
}

@test "--print makes everything ready and prints the commands, which any shell runs" {
	run -0 --separate-stderr stubbed -j 3 --print -K 2
	expect_no_stderr
	expect_stdout "syncer $BATS_FILE_TMPDIR/stubs/dl-sync -r $PWD/run
learner-0 $BATS_FILE_TMPDIR/stubs/dl-learn -r $PWD/run -i learner-0 -d $PWD/run/data/2.0.tok -j 3
learner-1 $BATS_FILE_TMPDIR/stubs/dl-learn -r $PWD/run -i learner-1 -d $PWD/run/data/2.1.tok -j 3"
	[ -e run/manifest ] && [ -e run/data/2.1.tok ]
	expect_no_file pids.*
	mkdir 'a b'
	cd 'a b'
	ln -s ../small.conf ../text.txt .
	run -0 --separate-stderr stubbed --print
	expect_stdout_like "syncer [^ ]*/dl-sync -r '[^']*/a b/run'"
}

@test "with --print a name in which a line ends is refused, and nothing is made" {
	local odd=$'a\nb'
	run -2 --separate-stderr in_time dl-run -m 2 --corpus text.txt -c small.conf --print "$odd"
	expect_stdout ""
	expect_stderr_line 'dl-run: .*/a\\nb: a line ends within this name, '
	expect_no_file "$odd"
	mkdir "$odd"
	cp small.conf text.txt "$odd"
	cd "$odd"
	run -2 --separate-stderr in_time dl-run -m 2 --corpus text.txt -c small.conf --print run
	expect_stderr_line 'dl-run: .*/a\\nb/run: a line ends within this name, '
	expect_no_file run
}

@test "a quorum of more learners than start here is warned of" {
	run -0 --separate-stderr in_time dl-run -m 2 --corpus text.txt -c small.conf -P 2 -K 3 --print run
	expect_stderr_line '^dl-run: run: a merge needs the answers of 3 learners [(]-K[)], and 2 start here [(]-m[)]: .* give -m 3'
	run -0 --separate-stderr in_time dl-run -m 2 --print run
	expect_stderr_line '^dl-run: run: a merge needs '
	run -0 --separate-stderr in_time dl-run -m 3 --print run
	expect_no_stderr
}

@test "fragments that are merged much less often than was asked for: a warning at the end says what helps" {
	local asked=(dl-run -m 2 --corpus text.txt -c small.conf --target-steps 200)
	run -0 --separate-stderr in_time "${asked[@]}" -P 8 -H 8 run
	expect_stderr_line '^dl-run: run: a fragment was merged every [0-9]+ steps, not every 8 [(]-H[)], .*--tau.*-P.*--batch.*-H'
	run -0 --separate-stderr in_time dl-run -m 2 run # over, it is told no more
	expect_no_stderr
	run -0 --separate-stderr in_time "${asked[@]}" -P 1 -H 100 slow
	expect_no_stderr
}

@test "a file system that becomes full is told once, and with -v when there is room again" {
	need_small_disk
	cat >within.sh <<-'END'
		"$1" -v -m 2 --corpus "$2/text.txt" -c "$2/small.conf" -P 2 run >/dev/null 2>"$2/err" 3>&- & runner=$!
		until [ -s pids.learner-1 ]; do sleep 0.1; done
		for _ in 1 2; do
			cat /dev/zero >filler 2>/dev/null
			sleep 3.5
			rm filler
			sleep 1.5
		done
		kill "$runner"
		wait "$runner"
	END
	run -143 small_disk 4m sh "$PWD/within.sh" "$BATS_FILE_TMPDIR/stubs/dl-run" "$PWD"
	[ "$(grep -c '^dl-run: run: the file system has [0-9.]* MiB left: the run waits for room$' err)" -eq 2 ] || complain "$(cat err)"
	[ "$(grep -c '^dl-run: run: there is room again, [0-9.]* MiB: the run goes on$' err)" -eq 2 ] || complain "$(cat err)"
}

@test "one that dies is started again, and its last words are told once" {
	plan learner-0 'echo "dl-learn: out of luck" >&2; exit 1' 'kill -KILL $$' 'exec sleep 600'
	in_background
	wait_for '[ "$(wc -l <pids.learner-0)" -eq 3 ]'
	kill -TERM "$runner"
	ends 143
	grep -qx 'dl-run: learner-0: exit status 1: dl-learn: out of luck; starts again in 1 s' err
	[ "$(grep -vc 'stopped: ' err)" -eq 1 ] || complain "$(cat err)"
	grep -q 'out of luck' run/log/learner-0.log
	[ "$(wc -l <pids.learner-1)" -eq 1 ]
	all_gone
}

@test "a syncer that can't go on ends the run with its status" {
	plan syncer 'echo "dl-sync: not authentic" >&2; exit 3'
	run -3 --separate-stderr stubbed
	expect_stderr_like 'dl-run: syncer: exit status 3: dl-sync: not authentic'
	expect_stderr_like 'dl-run: run: no syncer: see run/log/syncer\.log$'
	all_gone
}

@test "a reader of its words who goes away does not end it" {
	plan syncer 'sleep 1; exit 3' # which is told twice
	sh -c '"$@"; echo $? >left' sh timeout 60 "$BATS_FILE_TMPDIR/stubs/dl-run" -v -m 2 --corpus text.txt \
		-c small.conf -P 2 run 2>&1 >/dev/null | true
	[ "$(cat left)" -eq 3 ] || complain "it left with status $(cat left)"
	all_gone
}

@test "one learner beyond help does not end the run" {
	plan learner-0 'exit 3'
	in_background
	wait_for 'grep -q "learner-0: exit status 3" err'
	! gone "$runner" && ! gone "$(cat pids.learner-1)"
	kill -TERM "$runner"
	ends 143
	[ "$(wc -l <pids.learner-0)" -eq 1 ]
	all_gone
}

# elsewhere NAME...: these learners of run are at work in a process that is none of dl-run's: $other.
elsewhere() {
	stubbed --lease 4s --print >/dev/null
	dl-pretend -r run "$@" --for 5m >/dev/null 2>&1 3>&- &
	other=$!
	wait_for '[ -e run/learner/learner-0/beat ]'
}

@test "a learner whose name is in use elsewhere is not started again until it is free; one that only lost its syncer is" {
	elsewhere -i learner-0
	plan learner-0 'exit 4'
	plan learner-1 'exit 4'
	in_background --lease 4s
	wait_for 'grep -q "dl-run: learner-0 is at work elsewhere: " err'
	wait_for '[ "$(wc -l <pids.learner-1)" -eq 2 ]'
	sleep 10 # more than a lease
	[ "$(wc -l <pids.learner-0)" -eq 1 ] || complain "$(cat err)"
	kill -TERM "$other"
	wait_for '[ "$(wc -l <pids.learner-0)" -eq 2 ]'
	[ "$(grep -c elsewhere err)" -eq 1 ] || complain "$(cat err)"
	kill -TERM "$runner"
	ends 143
	all_gone
}

@test "when all learners are at work elsewhere, dl-run leaves with status 4" {
	elsewhere -i learner- -m 2
	plan learner-0 'exit 4'
	plan learner-1 'exit 4'
	run -4 --separate-stderr stubbed --lease 4s
	kill "$other"
	[ "$(grep -c 'learner-[01] is at work elsewhere: ' <<<"$stderr")" -eq 2 ] || complain
	expect_stderr_like 'dl-run: run: its learners are at work elsewhere, and none is left to this dl-run$'
	[ "$(cat pids.learner-* | wc -l)" -eq 2 ]
	all_gone
}

# Either may keep both names, or each has one: what must not be is that they take them from each other for ever.
@test "two that do not see each other's locks: a name stays with one of them" {
	local told='$(cat first second | grep -c "is at work elsewhere")' versions
	dl-run -q -m 2 --corpus text.txt -c small.conf -P 2 -H 4 --target-steps 1000M --print run >/dev/null
	dl-break flock ENOLCK while:/ dl-run -m 2 run >/dev/null 2>first 3>&- &
	runner=$!
	wait_for '[ -e run/learner/learner-1/beat ]'
	dl-break flock ENOLCK while:/ dl-run -m 2 run >/dev/null 2>second 3>&- &
	other=$!
	wait_for "[ $told -ge 2 ]" || wait_for "[ $told -ge 2 ]"
	versions=$(cat run/syncer/tape.* | grep -c ' publish ')
	wait_for "[ \"\$(cat run/syncer/tape.* | grep -c ' publish ')\" -gt $((versions + 20)) ]"
	kill "$runner" "$other" 2>/dev/null || :
	for runner in "$runner" "$other"; do
		wait "$runner" && status=0 || status=$?
		[ "$status" -eq 143 ] || [ "$status" -eq 4 ] || complain "$status" "$(cat first second)"
	done
	[ "$(cat first second | grep -c 'superseded')" -le 6 ] || complain "$(cat first second)"
}

@test "interrupted, it lets its children save, and dies by the same signal" {
	plan learner-0 'trap "echo saved >../saved; exit 0" TERM; echo on >../on; while :; do sleep 0.1; done'
	in_background
	wait_for '[ -s on ]'
	kill -INT "$runner"
	ends 130
	[ "$(cat saved)" = saved ]
	all_gone
	[ ! -s out ]
	[ "$(tail -n 1 err)" = "dl-run: stopped: dl-run -m 2 run goes on" ]
}

@test "stopped with options that count for one start only, it says to give them again; with -q nothing" {
	local options
	for options in "-j 1" "-j 1 -q"; do
		rm -f pids.* on
		plan learner-0 'echo on >../on; sleep 30'
		# shellcheck disable=SC2086 # words on purpose
		in_background $options
		wait_for '[ -s on ]'
		kill -TERM "$runner"
		ends 143
		if [ "$options" = "-j 1" ]; then
			[ "$(tail -n 1 err)" = "dl-run: stopped: the same command goes on" ]
		else
			[ ! -s err ]
		fi
	done
}

@test "a second interrupt kills at once" {
	plan learner-0 'trap "" TERM; echo on >../on; for _ in $(seq 600); do sleep 0.1; done'
	in_background
	wait_for '[ -s on ]'
	kill -INT "$runner"
	for _ in {1..200}; do
		sleep 0.3
		kill -INT "$runner" 2>/dev/null || break
	done
	ends 130
	all_gone
}

@test "children do not outlive it" {
	in_background
	wait_for '[ -s pids.learner-0 ] && [ -s pids.learner-1 ] && [ -s pids.syncer ]'
	kill -KILL "$runner"
	ends 137
	wait_for all_gone
}

@test "one at a time in a run directory" {
	in_background
	wait_for '[ -s pids.learner-1 ]'
	run -4 --separate-stderr stubbed
	expect_stderr_line "^dl-run: run: another dl-run is at work: log/dl-run\.lock: in use by process $runner$"
	kill -TERM "$runner"
	ends 143
}

@test "several at once on a run that is not there yet: one makes it, the others leave with status 4" {
	local n pid alive=0 ends=0
	for n in 1 2 3; do
		"$BATS_FILE_TMPDIR/stubs/dl-run" -m 2 --corpus text.txt -c small.conf -P 2 run >out.$n 2>err.$n </dev/null 3>&- &
		eval "pid$n=$!"
	done
	wait_for '[ -s pids.learner-1 ] && [ "$(cat err.* | wc -l)" -ge 2 ]'
	for n in 1 2 3; do
		pid=$(eval "echo \$pid$n")
		if grep -q 'another dl-run is at work' "err.$n"; then
			ends=$((ends + 1)) status=0
			wait "$pid" || status=$?
			[ "$status" -eq 4 ] || complain "status $status" "$(cat "err.$n")"
		else
			alive=$((alive + 1)) runner=$pid
		fi
	done
	[ "$alive" -eq 1 ] && [ "$ends" -eq 2 ] || complain "$(cat err.*)"
	kill -TERM "$runner"
	ends 143
}

@test "options that contradict the run are refused by name, the same ones are not" {
	dl-init -r run -c small.conf -P 2 --momentum 0.5 --lease 45s --target-steps 60
	refused() {
		run -2 --separate-stderr stubbed "${@:2}"
		expect_stderr_line "^dl-run: option $1: the run has .*, not .*: leave it out, or make another run$"
	}
	refused -H -H 25
	refused -K -K 2
	refused --tau --tau 3
	refused --momentum --momentum 0.9
	refused --rule --rule direct
	refused --expert-weights --expert-weights routed
	refused --adopt --adopt overwrite
	refused --seed --seed 7
	refused --lease --lease 46s
	refused --target-steps --target-steps 61
	refused --target-steps --target-steps 60k
	refused --target-tokens --target-tokens 1000
	run -2 --separate-stderr in_time "$BATS_FILE_TMPDIR/stubs/dl-run" -m 1 -P 3 run
	expect_stderr_line "^dl-run: option -P: the run has 2, not 3: "
	sed 's/^batch 4/batch 5/' small.conf >other.conf
	run -2 --separate-stderr in_time dl-run -m 2 -c other.conf run
	expect_stderr_line '^dl-run: option -c: other\.conf: the run has batch 4, not 5: '
	local key digest
	digest=$(printf 'ab%.0s' {1..32})
	for key in "decay_tokens 5000" "vocabulary $digest"; do # which the run leaves out
		{ cat small.conf && echo "$key"; } >other.conf
		run -2 --separate-stderr in_time dl-run -m 2 -c other.conf run
		expect_stderr_line "^dl-run: option -c: other\.conf: the run has ${key% *} none, not ${key#* }: "
	done
	plan syncer 'exit 2' # gets that far
	run -2 --separate-stderr stubbed --momentum 0.50 --lease 0.75m --target-steps 0.06k -H 0.024k --rule rda --seed 0
	expect_stderr_like 'no syncer'
}

@test "mistakes are told before anything is made" {
	run -2 --separate-stderr in_time dl-run run
	expect_stderr_line '^dl-run: how many learners\? give -m M$'
	run -2 --separate-stderr in_time dl-run -m 0 run
	expect_stderr_line '^dl-run: option --learners: '
	run -2 --separate-stderr in_time dl-run -m 2
	expect_stderr_line '^dl-run: which run\? give a directory$'
	run -2 --separate-stderr in_time dl-run -m 2 --target-steps 5 --target-tokens 5 run
	expect_stderr_line '^dl-run: the run ends at --target-steps or at --target-tokens: one of them$'
	run -1 --separate-stderr in_time dl-run -m 2 --corpus nowhere.txt run
	expect_stderr_line '^dl-run: nowhere\.txt: No such file'
	run -2 --separate-stderr in_time dl-run -m 2 --corpus text.txt -c small.conf -P 0 run
	expect_stderr_line '^dl-run: dl-init: option --fragments: '
	printf '%s\n' 'layerz 3' >bad.conf
	run -2 --separate-stderr in_time dl-run -m 2 --corpus text.txt -c bad.conf run
	expect_stderr_line "^dl-run: dl-init: bad\.conf: line 1: unknown key 'layerz'"
	expect_no_file run
}

@test "without a corpus, and without the default one, it says what to install" {
	mkdir bin
	for program in "$DL_BIN"/dl-*; do
		cp "$program" bin
	done
	run -2 --separate-stderr in_time env PATH=/nowhere bin/dl-run -m 2 run
	expect_stderr_line '^dl-run: no data: give --corpus FILE, or install the default corpus with apt-get install bible-kjv$'
	expect_no_file run
}

@test "another corpus than the run's is refused, the same one is not" {
	plan syncer 'exit 2' 'exit 2'
	run -2 --separate-stderr stubbed
	head -c 29999 text.txt >shorter.txt
	{ cat text.txt && echo; } >longer.txt
	tr e f <text.txt >different.txt
	for other in shorter longer different; do
		run -2 --separate-stderr in_time dl-run -m 2 --corpus $other.txt run
		expect_stderr_line "^dl-run: --corpus .*/$other\.txt: the run has another one, in data/corpus\.tok$"
	done
	dl-data -o text text.txt
	run -2 --separate-stderr in_time "$BATS_FILE_TMPDIR/stubs/dl-run" -m 2 --corpus text.tok run
	expect_stderr_like 'no syncer'
}

# expect_text M: the parts of run for M learners are those of text.txt.
expect_text() {
	local size=0 part
	for part in $(seq 0 $(($1 - 1))) valid; do
		size=$((size + $(dl-data -d "run/data/$1.$part.tok" | wc -c)))
	done
	[ "$size" -eq "$(wc -c <text.txt)" ] || complain "$size bytes"
	[ "$(dl-data -d "run/data/$1.0.tok" | head -c 64)" = "$(head -c 64 text.txt)" ] || complain "another text"
}

@test "a run that has lost its corpus never trains on another one unasked" {
	local made=(dl-run -q -m 2 --corpus text.txt -c small.conf -P 2 -H 4 --target-steps 400)
	"${made[@]}" --print run >/dev/null # has not begun
	rm run/data/corpus.tok
	run -0 --separate-stderr in_time dl-run -v -m 2 --print run # the parts do
	expect_stderr_line '^dl-run: data/corpus\.tok: not there: the parts that were dealt out of it do$'
	expect_text 2
	refused() {
		run -2 --separate-stderr in_time dl-run "$@" run
		expect_stdout ""
		expect_stderr_line "^dl-run: the run has lost its text, .*data/corpus\.tok.*: .*give it with --corpus$"
	}
	refused -m 3
	rm -r run/data
	refused -m 2
	grep -q "made of $PWD/text.txt" <<<"$stderr"
	run -0 --separate-stderr in_time dl-run -m 3 --corpus text.txt --print run
	expect_text 3
	timeout 5 dl-run -q -m 2 run || true # begins
	rm -r run/data run/log
	refused -m 2
	rm run/head
	refused -m 2
	run -0 --separate-stderr in_time dl-run -m 2 --corpus text.txt --print run
	expect_text 2
}

@test "a text given for one that is lost is that of all parts" {
	run_small --print >/dev/null
	rm run/data/corpus.tok
	corpus 30000 7 >other.txt
	run -0 --separate-stderr in_time dl-run -m 2 --corpus other.txt --print run
	ln -sf other.txt text.txt
	expect_text 2
}

@test "the default corpus is dealt out to a run that has none, and again when it is lost" {
	command -v bible >/dev/null || skip "no bible"
	dl-init -r run -c small.conf -P 2
	for _ in once again; do
		run -0 --separate-stderr in_time dl-run -v -m 2 --print run
		expect_stderr_line '^dl-run: the corpus is the default one, the King James Bible$'
		dl-data -d run/data/2.0.tok | grep -q God
		rm -r run/data
	done
}

@test "parts that are damaged are dealt out again" {
	run_small --print >/dev/null
	dl-data -d run/data/2.0.tok >before
	for damage in 'truncate -s 100' 'truncate -s -1' 'truncate -s 0' rm 'cp small.conf'; do
		for part in 0 valid; do
			$damage run/data/2.$part.tok
			run -0 --separate-stderr in_time dl-run -m 2 --print run
			[ "$damage" = rm ] || expect_stderr_line "^dl-run: data/2\.$part\.tok: .*; dealt out again$"
			dl-data -d run/data/2.0.tok | cmp - before
			dl-show --verify run/data/2.*.tok
		done
	done
}

@test "too little text for so many learners: it says how many there can be" {
	run -2 --separate-stderr in_time dl-run -m 1000 --corpus text.txt -c small.conf run
	expect_stderr_line '^dl-run: the corpus has 30000 tokens, enough for [0-9]+ learners at most with samples of 32: start fewer \(-m\), or give more text \(--corpus\)$'
	[[ $stderr =~ enough\ for\ ([0-9]+) ]]
	most=${BASH_REMATCH[1]}
	run -2 --separate-stderr in_time dl-run -m $((most + 1)) --corpus text.txt -c small.conf run
	run -0 --separate-stderr in_time dl-run -m "$most" --corpus text.txt -c small.conf --print run
	head -c 1000 text.txt >short.txt
	run -2 --separate-stderr in_time dl-run -m 1 --corpus short.txt -c small.conf other
	expect_stderr_line '^dl-run: the corpus has 1000 tokens, too few .*: give more text \(--corpus\)$'
	expect_no_file other
}

@test "a shard of ids is a corpus, too" {
	sed '1i vocab 300' small.conf >ids.conf
	seq 0 299 | awk '{ for (i = 0; i < 40; i++) printf "%d ", ($1 + i * i) % 300; print "" }' |
		dl-data --ids --vocab 300 --bytes 50000 -o ids
	plan syncer 'exit 2'
	run -2 --separate-stderr in_time "$BATS_FILE_TMPDIR/stubs/dl-run" -m 2 --corpus ids.tok -c ids.conf -P 2 run
	expect_stderr_like 'no syncer'
	dl-data -d ids.tok >whole
	dl-data -d run/data/corpus.tok >again
	expect_same whole again
	run -0 dl-show run/data/2.0.tok
	expect_stdout_like 'vocab +300'
}

@test "a corpus whose ids are not the model's is refused before the run keeps it, in one line" {
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 16' 'batch 2' >bare.conf
	cp "$repo/tests/fuzz/seeds/vocab/bpe" m.model # 12 pieces
	awk 'BEGIN { for (i = 0; i < 40000; i++) print i * i % 9 }' >ids
	dl-data --ids --tokenizer m.model -o m ids
	dl-data --ids --tokenizer "$repo/tests/fuzz/seeds/vocab/unigram" -o n ids
	dl-init -c bare.conf --tokenizer m.model >m.ckpt
	dl-init -r run -P 2 --target-steps 4 m.ckpt
	seq 1000 >text.txt
	run -2 --separate-stderr in_time dl-run -m 2 --corpus text.txt run
	expect_stderr_line '^dl-run: .*text\.txt: is text, a token for each byte, and the model has a vocabulary of 12: give a shard of its ids '
	run -2 --separate-stderr in_time dl-run -m 2 --corpus n.tok run
	expect_stderr_line '^dl-run: --corpus .*n\.tok: made with another vocabulary than the model: [0-9a-f]{16}, '
	[ -z "$(ls run/data)" ] || complain "$(ls run/data)"
	for _ in once again; do
		plan syncer 'exit 2'
		run -2 --separate-stderr in_time "$BATS_FILE_TMPDIR/stubs/dl-run" -m 2 --corpus m.tok run
		expect_stderr_like 'no syncer'
	done
	run -2 --separate-stderr in_time dl-run -m 2 --corpus n.tok run
	expect_stderr_line 'the run has another one, in data/corpus\.tok$'
}

@test "--batch and --context are for the learners and the result; a context longer than the model's is refused" {
	run -0 --separate-stderr run_small --batch 2 --context 16 --print
	[ "$(grep -c -- '^learner-[01] .* -B 2 -T 16\b' <<<"$output")" -eq 2 ] || complain
	run -2 --separate-stderr in_time dl-run -m 2 --context 33 run
	expect_stderr_line "^dl-run: option --context: 33 is more than the model's 32$"
	run -0 --separate-stderr in_time dl-run -m 2 --batch 2 --context 16 run
	[ "$(sed 1d <<<"$output")" = "$(dl-eval -B 2 -T 16 -d run/data/2.valid.tok run/ckpt/*.ckpt)" ] || complain
	run -0 dl-show run/ckpt/*.ckpt
	expect_stdout_like 'conf.context +32'
}

@test "on a terminal one line tells the progress" {
	command -v script >/dev/null || skip "no script"
	run -0 script -qec "$(declare -f run_small); run_small" /dev/null </dev/null
	expect_stdout_like 'dl-run: step [0-9]+/16, [0-9]+ tokens/s(, training loss [0-9.]+)?, [0-9] of 2 learners alive'
}
