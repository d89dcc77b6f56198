# The syncer, with learners that only pretend to train (dl-pretend), so that rounds take no time to speak of.

load helper

setup_file() {
	printf 'vocab 32\nd_model 8\nlayers 2\nheads 2\nff 16\ncontext 8\nbatch 2\n' \
		>"$BATS_FILE_TMPDIR/small.conf"
	dl-key gen 2>/dev/null || true
}

setup() {
	cd "$BATS_TEST_TMPDIR" || return
	started=()
}

teardown() {
	[ "${#started[@]}" -eq 0 ] || kill -CONT "${started[@]}" 2>/dev/null || true
	[ "${#started[@]}" -eq 0 ] || kill -KILL "${started[@]}" 2>/dev/null || true
	wait
}

# new_run [OPTIONS]: run/, of four small fragments.
new_run() {
	dl-init -q -r run -c "$BATS_FILE_TMPDIR/small.conf" -P 4 -H 20 --keep 0 "$@"
}

# begin NAME COMMAND...: in the background, with NAME.out and NAME.err; its number is in $NAME.
begin() {
	local name=$1
	shift
	"$@" >"$name.out" 2>"$name.err" </dev/null 3>&- &
	printf -v "$name" %s $!
	started+=($!)
}
learners() {
	begin learners dl-pretend -r run -m "$@"
}

tape() {
	find run/syncer -name 'tape.*' | sort -t . -k 2 -n | xargs cat
}
# tape_has REGEX: a line of the tape.
tape_has() {
	tape | grep -qE "$1" || {
		printf 'no line of the tape is like: %s\n' "$1"
		tape | cut -c 1-160
		return 1
	} >&2
}
# until_tape REGEX: waits for it. A minute is for machines that are very busy.
until_tape() {
	local i
	for ((i = 0; i < 600; i++)); do
		tape 2>/dev/null | grep -qE "$1" && return
		sleep 0.1
	done
	tape_has "$1"
}

until_file() {
	local i
	for ((i = 0; i < 600; i++)); do
		[ ! -e "$1" ] || return 0
		sleep 0.1
	done
	return 1
}

replays() {
	run -0 --separate-stderr in_time dl-sync -r run --replay
	expect_stdout_like " 0 different"
	expect_stdout_like " 0 not kept"
	run -0 --separate-stderr dl-show --ledger run # the books balance
}

@test "a run goes to its end, quietly" {
	new_run --target-steps 100
	learners 3
	run -0 --separate-stderr in_time dl-sync -r run
	expect_stdout ""
	expect_no_stderr
	wait "$learners"
	tape_has " finish why=target_steps "
	tape_has " done step="
	[ "$(find run/ckpt -name '*.ckpt' | wc -l)" -eq 1 ]
	run -0 --separate-stderr dl-show --verify run/ckpt/*.ckpt
	replays
	expect_no_temporary run
	for mode in "" --once; do
		# shellcheck disable=SC2086 # one word, or none
		run -0 --separate-stderr in_time dl-sync $mode -r run
		expect_stderr_line '^dl-sync: the run is done \(step [0-9]+\)$'
	done
	run -0 --separate-stderr dl-sync -q --once -r run
	expect_no_stderr
}

@test "a target of tokens ends a run, too" {
	new_run --target-tokens 20000
	learners 2
	run -0 in_time dl-sync -r run
	tape_has " finish why=target_tokens "
}

@test "learners may be there before the syncer, and after" {
	new_run --target-steps 100
	begin early dl-pretend -r run -i early
	sleep 0.3
	begin syncer dl-sync -r run
	until_tape " join learner=early "
	begin late dl-pretend -r run -i late
	until_tape " join learner=late "
	wait "$syncer" "$early" "$late"
	replays
}

@test "the lines of a round are told with -v" {
	new_run --target-steps 60
	learners 2
	run -0 --separate-stderr in_time dl-sync -r run -v
	expect_stderr_like "round 1: f00[0-3] is at version 1, step [0-9]+: answers [12]/2, xi_step "
	expect_stderr_like "slack [-0-9.e]+, window [0-9.e-]+, .* H "
}

@test "--once says what is missing, with status 4" {
	new_run -K 2
	run -4 --separate-stderr in_time dl-sync -r run --once
	expect_stderr_line "^dl-sync: nothing to merge: no round is due, 0 of 0 learners are alive, a quorum needs 2$"
	begin one dl-pretend -r run -i one --rate 1000 --for 1s
	wait "$one"
	run -0 --separate-stderr in_time dl-sync -r run --once # calls
	begin one dl-pretend -r run -i one --rate 1000 --for 1s
	wait "$one"
	run -4 --separate-stderr in_time dl-sync -r run --once
	expect_stderr_like "round 1 \(f00[0-3]\) has 1 of 2 answers and waits for .* since 20[0-9-]+ [0-9:]+ UTC"
}

@test "two lines as of cron drive a run to its end" {
	local turn
	new_run --target-steps 300
	for ((turn = 0; turn < 200; turn++)); do
		begin a dl-pretend -r run -i a --rate 200 --for 0.5s
		dl-sync -r run --once -q 2>/dev/null || [ $? -eq 4 ]
		wait "$a"
		! tape | grep -q " done step=" || break
	done
	tape_has " done step="
	replays
}

@test "a second syncer is refused with status 4" {
	new_run
	begin first dl-sync -r run
	until_tape " epoch epoch=1 "
	run -4 --separate-stderr in_time dl-sync -r run
	expect_stderr_line "^dl-sync: another syncer lives: syncer/lock\.lock: in use by process $first"
	kill "$first"
	wait "$first" # tidily: status 0
	tape_has " end "
}

# The machine as it would be after it was started anew, or another one.
elsewhere() {
	unshare -m sh -c 'mount --bind "$1" /proc/sys/kernel/random/boot_id && shift && exec "$@"' sh \
		"$BATS_TEST_TMPDIR/boot" "$@"
}
@test "a syncer on another machine is given a lease to show that it lives" {
	echo 01234567-89ab-cdef-0123-456789abcdef >boot
	elsewhere true 2>/dev/null || skip "no right to mount"
	new_run --lease 1s
	begin first dl-sync -r run
	until_tape " epoch epoch=1 "
	rm run/syncer/lock.lock # a lock that does not reach so far
	run -4 --separate-stderr elsewhere dl-sync -r run
	expect_stderr_line "^dl-sync: another syncer lives \(epoch 1\); --take-over takes its place$"
	kill -KILL "$first"
	begin second elsewhere dl-sync -r run
	until_tape " epoch epoch=2 "
}

@test "a syncer that is taken over stops, and publishes nothing any more" {
	new_run --target-steps 200
	learners 2
	begin first dl-sync -r run
	until_tape " publish "
	kill -STOP "$first"
	run -4 --separate-stderr in_time dl-sync -r run # it is there, for all that can be seen
	begin second dl-sync -r run --take-over
	until_tape " epoch epoch=2 "
	kill -CONT "$first"
	local left=0
	wait "$first" || left=$?
	[ "$left" -eq 4 ]
	grep -q "superseded by the syncer of epoch 2" first.err
	wait "$second"
	tape_has " done "
	replays
}

# killed_after SECONDS COMMAND...: is back once it is dead; timeout -s KILL may be so before, with locks still held.
killed_after() {
	"${@:2}" 3>&- &
	sleep "$1"
	kill -KILL $! 2>/dev/null || true
	wait $! || true
}

@test "a syncer that is killed again and again loses nothing" {
	local i
	new_run --target-steps 200
	learners 3
	for ((i = 0; i < 12; i++)); do
		killed_after "0.$((i * 7 % 10))5" dl-sync -r run -q
	done
	run -0 timeout 120 dl-sync -r run
	replays
}

@test "learners that are killed, too, lose only what was under way" {
	local i
	new_run --target-steps 200 --lease 2s
	begin killer bash -c 'for i in 1 2 3 4 5 6 7 8; do
		timeout -s KILL 0.$((i * 3 % 10))5 dl-pretend -r run -m 3; done; exec dl-pretend -r run -m 3'
	for ((i = 0; i < 8; i++)); do
		killed_after "0.$((i * 7 % 10))5" dl-sync -r run -q
	done
	run -0 timeout 120 dl-sync -r run -q
	wait "$killer"
	tape_has " back learner=p0 "
	replays
}

@test "learners and syncer of a real run end together, also small and fast ones" {
	printf 'vocab 256\nd_model 16\nlayers 2\nheads 2\nff 32\ncontext 32\nbatch 2\n' >model.conf
	corpus 20000 | dl-data --split 2 -o text
	dl-init -q -r run -c model.conf -P 4 -H 20 --target-steps 300 --keep 0
	begin a dl-learn -r run -i a -d text.0.tok -q
	begin b dl-learn -r run -i b -d text.1.tok -q
	run -0 --separate-stderr timeout 120 dl-sync -r run
	expect_no_stderr
	wait "$a" "$b"
	replays
	run -0 --separate-stderr dl-eval -d text.0.tok run/ckpt/*.ckpt
}

@test "no quorum until the deadline is status 4, and says who is missing" {
	new_run -K 3
	learners 2
	run -4 --separate-stderr in_time dl-sync -r run --deadline 2s
	expect_stderr_like "nothing was merged until the deadline: "
	expect_stderr_like "3"
}

@test "--for leaves tidily, and the next one goes on" {
	new_run --target-steps 150
	learners 2
	run -0 --separate-stderr in_time dl-sync -r run --for 0.5s
	expect_no_stderr
	tape_has " end "
	run -0 in_time dl-sync -r run
	replays
}

# bad KIND VERDICT: one good learner, and one with answers that are all bad.
bad() {
	rm -rf run
	new_run --target-steps 100 --rule direct --lease 2s
	begin bad dl-pretend -r run -i bad --fault "$1:1"
	begin good dl-pretend -r run -i good
	until_file run/learner/bad/beat
	timeout 60 dl-sync -r run -q
	wait "$good" "$bad"
	tape_has " refuse .*learner=bad .*verdict=$2 "
	! tape | grep -E " merge .*answers=.*\bbad:"
}
@test "bad answers are refused by name, and the round goes on" {
	bad nan "(not-finite|late)"
	bad other "(not-its-name|late)"
	bad old "(old-incarnation|late)" || bad old "late"
	bad torn unreadable
}

@test "a learner that falls silent is lost, and back when it beats again" {
	new_run --lease 1s
	begin a dl-pretend -r run -i a
	begin syncer dl-sync -r run -q
	until_tape " join learner=a "
	kill -STOP "$a"
	until_tape " lost learner=a silent="
	kill -CONT "$a"
	until_tape " back learner=a incarnation=1"
	kill "$a"
	until_tape " gone learner=a "
	begin a dl-pretend -r run -i a
	until_tape " back learner=a incarnation=2"
}

@test "one that trained to the target and left does not end the run for the next" {
	printf '%s\n' 'd_model 8' 'layers 1' 'heads 2' 'ff 16' 'context 8' 'batch 2' >text.conf
	corpus 4000 | dl-data -o text
	dl-init -q -r run -c text.conf -P 2 -H 8 --target-steps 20 --lease 5m
	dl-learn -q -r run -d text.tok -i a -n 20
	begin syncer dl-sync -r run
	until_tape " gone learner=a "
	dl-learn -q -r run -d text.tok -i b
	wait "$syncer"
	tape_has " finish "
	tape_has " merge .*answers=b:"
}

@test "junk among the learners costs nothing and harms nobody" {
	new_run --target-steps 100
	local i
	for ((i = 0; i < 2000; i++)); do : >"run/learner/junk$i"; done
	mkdir -p run/learner/empty run/learner/fifo run/learner/link "run/learner/two
lines" run/learner/-rf run/learner/tmp.tmp
	mkfifo run/learner/fifo/beat run/learner/pipe
	ln -s /etc/passwd run/learner/link/beat
	ln -s / run/learner/root
	mkdir run/learner/p0
	for ((i = 1; i < 30; i++)); do mkfifo "run/learner/p0/f000.$i.delta"; done
	learners 2
	run -0 --separate-stderr timeout 60 dl-sync -r run -q
	expect_no_stderr
	tape_has " done "
}

@test "the run directory may be renamed meanwhile" {
	new_run --target-steps 150
	learners 2
	begin syncer dl-sync -r run
	until_tape " publish "
	mv run elsewhere
	wait "$syncer" "$learners"
	mv elsewhere run
	replays
}

@test "a full disk is waited for" {
	new_run --target-steps 150
	learners 2
	: >full
	begin syncer dl-break write,fsync ENOSPC "while:$PWD/full" dl-sync -r run
	sleep 1
	rm full
	wait "$syncer" || { kill -0 "$syncer" && false; } || run -0 in_time dl-sync -r run
	run -0 in_time dl-sync -r run
	replays
}

@test "any call of a merge may fail once" {
	local n
	new_run --target-steps 10000
	learners 2 --goes-on
	dl-sync -r run --for 0.5s -q
	for n in 5 15 25 35 45 55 65 75 85 95 105 120 140; do
		dl-break all EIO "$n" dl-sync -r run --for 0.4s -q || true
	done
	dl-sync -r run --for 0.5s -q
	replays
}

@test "--checkpoint writes where the run is, and the one at the end is the same" {
	new_run --target-steps 60 --checkpoint-every 30
	run -4 --separate-stderr in_time dl-sync -r run --checkpoint now.ckpt
	expect_stderr_like "no syncer has been here yet"
	expect_no_file now.ckpt
	learners 2
	dl-sync -r run
	[ "$(find run/ckpt -name '*.ckpt' | wc -l)" -ge 2 ] || [ "$(tape | grep -c ' checkpoint ')" -ge 1 ]
	dl-sync -r run --checkpoint now.ckpt
	last=$(find run/ckpt -name '*.ckpt' | sort -V | tail -n 1)
	run -0 dl-show --diff now.ckpt "$last"
	dl-sync -r run --checkpoint - >also.ckpt
	run -0 dl-show --diff now.ckpt also.ckpt
}

@test "a reader of its words who goes away does not end the syncer" {
	new_run --target-steps 60
	learners 2
	sh -c '"$@"; echo $? >left' sh timeout 60 dl-sync -v -r run 2>&1 | head -n 1
	[ "$(cat left)" -eq 0 ] || complain "it left with status $(cat left)"
	tape_has " done step="
}

# done_run: run/, a copy of one that has come to its end.
done_run() {
	rm -rf run
	if [ ! -e "$BATS_FILE_TMPDIR/done" ]; then
		new_run --target-steps 60
		learners 2
		dl-sync -q -r run
		mv run "$BATS_FILE_TMPDIR/done"
	fi
	cp -r "$BATS_FILE_TMPDIR/done" run
	last=$(cd run && echo ckpt/*.ckpt)
	frag=$(cd run && find global/f001 -name '*.frag' | sort -V | tail -n 1)
}
as_it_was() {
	diff -r -x '*.lock' "$BATS_FILE_TMPDIR/done" run
}

@test "--checkpoint takes no name among the run's own files, whatever links lead there" {
	done_run
	ln -s "run/$frag" soft
	ln -s run/global/f001 way
	mkdir run/learner/new
	local place
	for place in "run/$frag" soft way/new run/ckpt/../global/new run/syncer/tape.1 run/learner/new/state; do
		run -2 --separate-stderr dl-sync -r run --checkpoint "$place"
		expect_stdout ""
		expect_stderr_line "^dl-sync: $place: is in (global|syncer|learner)/ of the run, where only its own files go: "
	done
	rmdir run/learner/new
	as_it_was
	dl-sync -q -r run --checkpoint run/ckpt/mine
	dl-sync -q -r run --checkpoint mine
	expect_same mine run/ckpt/mine
}

@test "the last checkpoint of a run that is done is made again when it is lost or damaged" {
	local how why
	while IFS='|' read -r how why; do
		done_run
		eval "$how"
		run -0 --separate-stderr in_time dl-sync -r run --once
		expect_stderr_like "dl-sync: $last: $why.*: it was made again from the fragments$"
		as_it_was
	done <<-'END'
		rm "run/$last"|not there
		rm -r run/ckpt|not there
		echo junk >"run/$last"|not a dl file
		flip_bit "run/$last" 9000|frame
		truncate -s -10 "run/$last"|
		dl-init -c "$BATS_FILE_TMPDIR/small.conf" -o "run/$last"|is not the one of the end of this run
	END
	run -0 --separate-stderr in_time dl-sync -r run
	expect_stderr_line '^dl-sync: the run is done \(step [0-9]+\)$'
}

@test "newest versions of a run that is done: --replay tells what is lost or damaged, and the syncer makes it again" {
	done_run
	run -0 --separate-stderr dl-sync -r run --replay
	local other=${frag/f001/f002}
	other=$(cd run && find global/f002 -name '*.frag' | sort -V | tail -n 1)
	flip_bit "run/$frag" 9000
	rm "run/$other"
	run -3 --separate-stderr dl-sync -r run --replay
	expect_stdout_like " 0 different
2 of the newest are gone, or not as they were published
first of them: $frag: "
	expect_stderr_like "^dl-sync: $other: not there
dl-sync: $frag: .*: dl-sync -r RUN makes it again while base and answers of its merge are there, else bring it back$"
	run -3 --separate-stderr dl-sync -r run --replay --json
	expect_stdout_like '"different":0,"damaged":2,.*"first":"global/f001/'
	run -0 --separate-stderr in_time dl-sync -r run
	expect_stderr_like "dl-sync: $frag: .*: it was made again from its answers, the same"
	expect_stderr_like "dl-sync: $other: not there: it was made again from its answers, the same"
	as_it_was
	run -0 --separate-stderr dl-sync -r run --replay
}

@test "a newest version of a run that is done, and that can't be made again, is status 3, with what to do" {
	done_run
	rm -r run/learner "run/$frag"
	run -3 --separate-stderr in_time dl-sync -r run --once
	expect_stderr_like "dl-sync: $frag: not there, and it can't be made again \(.*\): bring it back; the model is whole in $last$"
	rm "run/$last"
	run -3 --separate-stderr in_time dl-sync -r run
	expect_stderr_like "dl-sync: $frag: not there, and it can't be made again \(.*\): bring it back$"
	cp "$BATS_FILE_TMPDIR/done/$frag" "run/$frag"
	run -0 --separate-stderr in_time dl-sync -r run
	expect_stderr_like "dl-sync: $last: not there: it was made again from the fragments$"
}

@test "a signal ends the look at a run that is done, in whatever it reads or writes then" {
	need_plain_build
	done_run
	local call under what
	while read -r call under what; do
		[ "$call" = open ] || rm -f "run/$last" # it is made again then
		FAULT_UNDER=$under run -1 --separate-stderr in_time dl-break "$call" term 1 dl-sync -q -r run
		expect_stderr_line "^dl-sync: $what"
		expect_no_temporary run
	done <<-END
		open /global/ global/f000/[0-9]+\.frag: interrupted$
		open /ckpt/ $last: interrupted$
		write /ckpt/ $last: not there, and it can't be made again: interrupted$
	END
	run -0 --separate-stderr in_time dl-sync -q -r run
	as_it_was
}

@test "old versions go when they are not kept" {
	dl-init -q -r run -c "$BATS_FILE_TMPDIR/small.conf" -P 4 -H 20 --keep 1
	learners 2 --rate 1000
	dl-sync -r run --for 3s
	[ "$(find run/global/f000 -name '*.frag' | wc -l)" -le 2 ]
	[ "$(find run/syncer/outer/f000 -name '*.outer' | wc -l)" -le 2 ]
}

@test "a stranger's key may not be syncer" {
	new_run
	dl-key show >owner.pub
	new_home
	run -3 --separate-stderr in_time dl-sync -r run -T owner.pub
	expect_stderr_line "^dl-sync: .*dl-key admit"
}

@test "what cannot be meant is status 2" {
	run -2 --separate-stderr in_time dl-sync
	expect_stderr_line "^dl-sync: which run\? give it with -r$"
	run -2 --separate-stderr in_time dl-sync -r run --once --deadline 5s
	run -2 --separate-stderr in_time dl-sync -r run --replay --once
	run -2 --separate-stderr in_time dl-sync -r run --json
	run -2 --separate-stderr in_time dl-sync -r run here
	run -1 --separate-stderr in_time dl-sync -r nowhere
	expect_stderr_line "^dl-sync: nowhere"
}
