# Whole decoupled runs: who may come and go, in which order, and what stays right.

# shellcheck disable=SC2004,SC2034,SC2030,SC2031,SC2314 # variables of decoupled.bash
load helper
load decoupled

setup_file() {
	setup_runs
}
setup() {
	setup_run
}

@test "a run to its end: everybody leaves with status 0, replay and books agree" {
	small_run run --target-steps 60
	sync_run
	learn a
	learn b
	ended sync a b
	expect_sound run
	tape_has " done "
	dl-eval -d "$BATS_FILE_TMPDIR/part.valid.tok" run/ckpt/*.ckpt >/dev/null
}

@test "learners may start long before the syncer" {
	small_run run --target-steps 60
	learn a
	until_true [ -e run/learner/a/beat ]
	learn b
	until_true [ -e run/learner/b/beat ]
	sync_run
	ended sync a b
	expect_sound run
}

@test "a syncer may start long before the learners, and end after they have left" {
	small_run run --target-steps 40
	sync_run
	until_true [ -e run/head ]
	learn a
	ended a sync
	expect_sound run
}

@test "learners come and go: two, a third, without the first" {
	small_run run
	sync_run
	learn a
	learn b
	until_true tape_has ' merge .*[=,]a:.*[=,]b:'
	learn c
	until_true tape_has ' merge .*[=,]c:'
	kill_hard a
	until_true tape_has ' lost learner=a'
	more_merges 4
	! tape | tail -n 20 | grep -E ' merge .*answers=(.*,)?a:' || complain "a is dead and answers"
	kill -TERM "${pids[b]}"
	ends b 0
	until_true tape_has ' gone learner=b'
	more_merges 4
	stopped c sync
	expect_sound run
}

@test "a quorum of more learners than there are: it waits, says for whom, and goes on when they come" {
	small_run run -K 3 --target-steps 40
	learn a
	learn b
	until_true [ -e run/learner/a/beat ]
	until_true [ -e run/learner/b/beat ]
	run --separate-stderr in_time dl-sync -r run --once
	expect_status 4
	expect_stderr_like "a quorum needs 3|of 3 "
	sync_run
	until_true eval 'dl-show --why run | grep -q "3"'
	learn c
	ended sync a b c
	expect_sound run
}

@test "at the end of the run what is there is merged, though it is no quorum, and that is told once" {
	small_run run -P 2 -K 3 --target-steps 20 --lease 2s
	learn a
	sync_run
	ended sync a
	[ "$(grep -c 'merged what is there, 1 of the 3 answers of a quorum' sync.log)" -eq 1 ] ||
		complain "not told once" "$(cat sync.log)"
	[ "$(tape_count ' publish ')" -eq 2 ]
	expect_sound run
}

@test "a quorum of nobody, a run of nothing: wrong usage, and nothing is made" {
	local words
	for words in "-K 0" "-K -1" "-H 0" "-P 0" "-P 100000" "--tau 0" "-K x" "--keep -1" "--lease 0"; do
		# shellcheck disable=SC2086 # two words
		run --separate-stderr dl-init -r run -c "$BATS_FILE_TMPDIR/small.conf" $words
		[ "$status" -eq 2 ] || complain "$words was accepted"
		expect_stderr_line "^dl-init: "
		expect_no_file run
	done
}

# copy: as README has it, from A to B what is not b's, and back what is. Status 24: a file vanished meanwhile.
copy() {
	local status=0
	rsync -a --delete --exclude /learner/b A/run/ B/run/ || status=$?
	[ "$status" -eq 0 ] || [ "$status" -eq 24 ] || return
	status=0
	rsync -a B/run/learner/b/ A/run/learner/b/ || status=$?
	[ "$status" -eq 0 ] || [ "$status" -eq 24 ]
}
copy_on() {
	until [ -e stop ]; do
		copy || return
		sleep 0.1
	done
}
@test "copies of a run directory that rsync keeps alike, each side pushing what it writes" {
	command -v rsync >/dev/null || skip "no rsync here"
	mkdir A
	small_run A/run -K 2 --target-steps 200 --keep 1 --tau 4 --lease 10s # no merge without b
	rsync -a A/run B/
	run=A/run learn a
	run=B/run learn b
	until_true [ -e B/run/learner/b/beat ]
	start copy copy_on
	run=A/run sync_run
	ended sync a b
	touch stop
	ended copy
	copy
	[ "$(run=A/run tape | grep -c ' merge .*answers=[^ ]*b:')" -ge 4 ] || complain "few answers of b were merged" "$(run=A/run tape | tail -n 60)"
	! grep -E 'tape|lost' sync.log || complain "something was rolled back"
	[ "$(find B/run/global/f000 -name '*.frag' | wc -l)" -le 2 ] || complain "old versions stay in the copy"
	run -0 --separate-stderr dl-show --ledger A/run
}

@test "clocks hours apart: nobody is lost for it" {
	need_plain_build
	small_run run --target-steps 60
	under="dl-break none - clock:7200" learn a
	under="dl-break none - clock:-86400" learn b
	learn c
	under="dl-break none - clock:-7200" sync_run
	ended sync a b c
	! tape_has ' lost ' || complain "somebody was lost"
	expect_sound run
}

@test "times of files far in the future or the past mean nothing" {
	small_run run
	sync_run
	learn a
	learn b
	until_true tape_has ' publish '
	find run -type f -exec touch -d '2038-01-01' {} + 2>/dev/null || :
	more_merges 2
	find run -type f -exec touch -d '1980-01-01' {} + 2>/dev/null || :
	more_merges 2
	stopped sync a b
	! tape_has ' lost ' || complain "somebody was lost"
	expect_sound run
}

@test "the run directory may be renamed while everything runs" {
	small_run run
	sync_run
	learn a
	learn b
	until_true tape_has 2 ' publish '
	mkdir elsewhere
	mv run elsewhere/moved
	run=elsewhere/moved
	more_merges 4
	stopped sync a b
	expect_sound elsewhere/moved
	expect_no_file run
}

@test "two syncers on one run: the second says who is there, status 4" {
	small_run run
	sync_run
	learn a
	until_true tape_has ' publish '
	run --separate-stderr in_time dl-sync -r run
	expect_status 4
	expect_stderr_like "^dl-sync: "
	run --separate-stderr in_time dl-sync -r run --once
	expect_status 4
	more_merges 2
	stopped sync a
	expect_sound run
}

@test "two syncers that cannot see each other's lock: the second sees the head move and leaves" {
	need_plain_build
	small_run run
	under="dl-break flock EOPNOTSUPP while:$PWD/run" sync_run
	learn a
	until_true tape_has ' publish '
	run --separate-stderr in_time dl-break flock EOPNOTSUPP while:"$PWD/run" dl-sync -r run
	expect_status 4
	expect_stderr_like "another syncer"
	more_merges 2
	stopped sync a
	expect_sound run
}

@test "a syncer that was stopped past its lease: another goes on, and its next commit fails" {
	need_plain_build
	small_run run
	touch nolocks
	under="dl-break flock EOPNOTSUPP while:$PWD/nolocks" sync_run
	learn a
	learn b
	until_true tape_has 2 ' publish '
	kill -STOP "${pids[sync]}"
	under="dl-break flock EOPNOTSUPP while:$PWD/nolocks" sync=second sync_run
	until_true tape_has ' epoch epoch=2 '
	more_merges 3
	kill -CONT "${pids[sync]}"
	ends sync 4
	grep -q "superseded" sync.log
	more_merges 2
	stopped second a b
	expect_sound run
	# No version was published twice.
	[ -z "$(tape | sed -n 's/.* publish round=[0-9]* \(fragment=f[0-9]* version=[0-9]*\) .*/\1/p' | sort | uniq -d)" ]
}

@test "--take-over does not wait, and the one that lived is superseded" {
	need_plain_build
	small_run run --lease 1h
	touch nolocks
	under="dl-break flock EOPNOTSUPP while:$PWD/nolocks" sync_run
	learn a
	until_true tape_has ' publish '
	under="dl-break flock EOPNOTSUPP while:$PWD/nolocks" sync=second sync_run --take-over
	ends sync 4
	more_merges 2
	stopped second a
	expect_sound run
}

@test "two learners with one name: only one goes on" {
	small_run run
	sync_run
	learn a
	until_true tape_has ' merge .*[=,]a:'
	learn b
	start twin dl-learn -v -r run -i a -j 1 -d "$BATS_FILE_TMPDIR/part.3.tok"
	until_true eval 'dead a || dead twin'
	more_merges 2
	! { dead a && dead twin; } || complain "both have left"
	! { ! dead a && ! dead twin; } || complain "both go on"
	kill -TERM "${pids[sync]}" "${pids[b]}" "${pids[a]}" "${pids[twin]}" 2>/dev/null || :
	ended sync b
	expect_sound run
}

@test "a learner that was stopped while another took its name finds out, and none of its answers count twice" {
	need_plain_build
	small_run run
	touch nolocks
	sync_run
	learn b
	under="dl-break flock EOPNOTSUPP while:$PWD/nolocks" learn a
	until_true tape_has ' merge .*[=,]a:'
	kill -STOP "${pids[a]}"
	start twin dl-break flock EOPNOTSUPP while:"$PWD/nolocks" dl-learn -v -r run -i a -j 1 -d "$BATS_FILE_TMPDIR/part.0.tok"
	until_true tape_has ' answer .*learner=a .*incarnation=2 '
	kill -CONT "${pids[a]}"
	until_true dead a
	more_merges 4
	stopped sync twin b
	expect_sound run
}

@test "two lines of cron drive a run to its end" {
	small_run run --target-steps 40
	local i status=4
	for i in $(seq 300); do
		dl-learn -q -r run -i a -j 1 -d "$BATS_FILE_TMPDIR/part.0.tok" --for 0.2s 2>>cron.log || :
		dl-learn -q -r run -i b -j 1 -d "$BATS_FILE_TMPDIR/part.1.tok" --for 0.2s 2>>cron.log || :
		status=0
		dl-sync -q -r run --once 2>>cron.log || status=$?
		[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || complain "dl-sync: status $status" "$(tail cron.log)"
		! tape_has ' done ' || break
	done
	tape_has ' done ' || complain "no end after $i rounds" "$(tail cron.log)"
	expect_sound run
	[ "$(ledger_of_all under_way)" -eq 0 ] || complain "a last merge was missed" "$(dl-show --ledger run)"
	[ "$(ledger_of_all lost)" -eq 0 ] || complain "lost between two lines" "$(dl-show --ledger run)"
}

@test "a learner that stopped tidily has lost nothing when it comes back to a run that went on" {
	small_run run
	sync_run
	learn a
	learn b
	until_true tape_has 4 ' merge .*[=,]a:'
	stopped a
	local before p
	before=$(dl-show --ledger --json run | sed -nE 's/.*"learner":"a",[^}]*"lost":([0-9]+).*/\1/p')
	for p in 0 1 2 3; do
		until_true tape_has $(($(tape_count " publish .*fragment=f00$p ") + 2)) " publish .*fragment=f00$p "
	done
	learn a
	until_true tape_has ' back learner=a '
	until_true tape_has $(($(tape_count ' merge .*[=,]a:') + 2)) ' merge .*[=,]a:'
	stopped sync a b
	dl-show --ledger --json run | grep -q "\"learner\":\"a\",[^}]*\"lost\":${before}[,}]" ||
		complain "lost $before before" "$(dl-show --ledger run)"
	expect_sound run
}

# ledger_of_all COLUMN: of the whole run, a whole number.
ledger_of_all() {
	dl-show --ledger --json run | sed -nE 's/.*"learner":null.*"'"$1"'":([0-9]+).*/\1/p'
}
@test "two lines of cron end a run of which nobody can answer the last rounds, too" {
	small_run run -K 2 --target-steps 40
	local i status line
	for i in $(seq 100); do
		for line in "a 0" "b 1"; do
			dl-learn -q -r run -i "${line% *}" -j 1 -d "$BATS_FILE_TMPDIR/part.${line#* }.tok" --for 0.2s 2>>cron.log || :
		done
		status=0
		dl-sync -q -r run --once 2>>cron.log || status=$?
		[ "$status" -eq 0 ] || [ "$status" -eq 4 ] || complain "dl-sync: status $status" "$(tail cron.log)"
		! tape_has ' done ' || break
	done
	[ "$i" -lt 50 ] && tape_has ' done ' || complain "no end after $i rounds" "$(tail cron.log)"
	expect_sound run
}

@test "a learner whose state is lost takes fragments from the head and moments from a peer" {
	small_run run
	sync_run
	learn a
	learn b
	until_true tape_has ' merge .*[=,]a:.*[=,]b:'
	stopped b
	until_true [ -s run/learner/a/state ] || { kill -TERM "${pids[a]}" && ended a; }
	# Whoever comes first in the list has half a state.
	mkdir -p run/learner/0half
	head -c 3000 run/learner/a/state >run/learner/0half/state
	cp run/learner/a/beat run/learner/0half/beat
	rm -r run/learner/b
	: >b.log
	learn b
	until_true grep -qE "moments .*\ba\b|\ba\b.* moments" b.log
	until_true tape_has ' (back|join) .*learner=b .*incarnation=2|join learner=b'
	more_merges 2
	kill -TERM "${pids[sync]}" "${pids[b]}" "${pids[a]}" 2>/dev/null || :
	ended sync b
}

@test "versions are collected under a learner that sleeps, and it goes on with newer ones" {
	small_run run --keep 1
	sync_run
	learn a
	learn b
	until_true tape_has ' merge .*[=,]a:.*[=,]b:'
	kill -STOP "${pids[b]}"
	more_merges 20
	[ "$(find run/global/f000 -name '*.frag' | wc -l)" -le 3 ]
	kill -CONT "${pids[b]}"
	local have
	have=$(tape_count ' merge .*[=,]b:')
	until_true tape_has $((have + 2)) ' merge .*[=,]b:'
	stopped sync a b
	run --separate-stderr dl-show --ledger run
	expect_status 0
}

@test "without a syncer a learner goes on for --max-stale steps, saves, and leaves with status 4" {
	local most=3000 # steps: more than pass between two heads, however small they are
	[ -z "${DL_SANITIZE-}" ] || most=300
	small_run run
	sync_run
	learn a --max-stale "$most"
	until_true tape_has ' merge .*[=,]a:'
	kill_hard sync
	ends a 4
	grep -q "max-stale\|syncer" a.log
	[ -s run/learner/a/state ]
	sync_run
	learn a
	until_true tape_has ' (back|join) .*learner=a .*incarnation=2'
	more_merges 1
	stopped sync a
	expect_sound run
}

@test "a learner that is stopped before its first step leaves no answer" {
	small_run run
	learn a --for 1ms
	until_true dead a
	sync_run
	learn b
	until_true tape_has ' publish '
	! tape_has ' answer .*learner=a .*steps=0 ' || complain "an answer of zero steps"
	stopped sync b
	expect_sound run
}

# Mean steps between merges of a fragment.
interval() {
	tape | sed -nE 's/.* publish round=[0-9]+ fragment=(f[0-9]+) .*/\1/p; s/.* merge .*fragment=(f[0-9]+) .* step=([0-9]+) .*/\1 \2/p' |
		awk 'NF == 2 { if ($1 in last) { sum += $2 - last[$1]; n++ } last[$1] = $2 } END { print n ? int(sum / n) : 0 }'
}
@test "a fast disk does not shorten the interval" {
	small_run run -H 100 -P 2 # without a target: the last rounds of a run wait for no interval
	sync_run
	learn a
	learn b
	more_merges 16
	stopped sync a b
	[ "$(interval)" -ge 90 ] || complain "merged every $(interval) steps, not every 100"
	expect_sound run
}
