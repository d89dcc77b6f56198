# Learners that lie, and directories that vanish.

# shellcheck disable=SC2034 # variables of decoupled.bash
load helper
load decoupled

setup_file() {
	setup_runs
}
setup() {
	setup_run
}

called() {
	tape_has ' call ' || dl-sync -q -r run --once
}
answer_is_there() {
	[ -n "$(find run/learner/a -name 'f000.*.delta')" ]
}
# claims KIND: one of three learners lies like that now and then, and the run is as without it.
claims() {
	small_run run -K 2 -H 20 --target-steps 300
	start honest dl-pretend -r run -i honest -m 2
	start liar dl-pretend -r run -i liar --fault "$1:0.5"
	sync_run
	ended sync honest liar
	tape_has ' refuse .*learner=liar .*verdict=outlier ' || complain "no lie was noticed"
	! tape_has ' refuse .*learner=honest.*verdict=outlier ' || complain "the honest were refused"
	[ "$(tape | sed -n 's/.* done step=\([0-9]*\).*/\1/p')" -lt 1000 ] || complain "the run leapt to its end"
	[ "$(tape | sed -n 's/.* done .*tokens=\([0-9]*\) .*/\1/p')" -lt 1000000 ] || complain "tokens are counted that are none"
	run --separate-stderr in_time dl-sync -r run --replay
	expect_status 0
}

@test "a learner that says it is millions of steps ahead does not end the run" {
	claims leap
}

@test "a learner that says it has trained millions of tokens does not outweigh the others" {
	claims vast
}

@test "the run directory is removed: everybody says so, and leaves" {
	small_run run
	learn a
	sync_run
	more_merges 1
	mv run removed # at once, for all files of it
	until_true rm -rf removed # they may still write to it
	ends a 1
	ends sync 1
	grep -q '^dl-learn: the run directory was removed$' a.log || complain "$(tail a.log)"
	grep -q '^dl-sync: the run directory was removed$' sync.log || complain "$(tail sync.log)"
}

@test "an answer is removed before it is seen: the round is given up, and the next one gets one" {
	small_run run -P 1 --lease 1s
	learn a
	until_true called
	until_true answer_is_there
	rm run/learner/a/f000.*.delta
	sync_run
	until_true tape_has " refuse .*learner=a .*verdict=unreadable "
	more_merges 2
	stopped a
	tape_has ' abandon round=1 ' || complain "$(tape | cut -c 1-120)"
}

@test "a learner's directory is removed: it makes another, and goes on" {
	small_run run --lease 1s
	learn a
	sync_run
	more_merges 1
	until_true rm -rf run/learner/a
	until_true [ -e run/learner/a/beat ]
	more_merges 2
	stopped a
}
