# Whose answers count, and how often.

# shellcheck disable=SC2004,SC2034,SC2030,SC2031,SC2314 # variables of decoupled.bash
load helper
load decoupled

setup_file() {
	setup_runs
	ready_run
	teardown
}
setup() {
	setup_run
	cp -r "$BATS_FILE_TMPDIR/ready" run
	# The answers of each, in order of fragments.
	a=$(find run/learner/a -name 'f000.*.delta') a=${a##*/}
	b=$(find run/learner/b -name 'f001.*.delta') b=${b##*/}
}

# not_merged PATTERN: both fragments need both learners, and one of them has not got them.
expect_not_merged() {
	run --separate-stderr in_time dl-sync -r run --once
	[ "$(merged run | wc -l)" -lt 2 ] || complain "it counted"
	until_true tape_has "$1"
}

@test "the answer of another learner, copied: refused" {
	cp "run/learner/a/$a" "run/learner/b/$a"
	expect_not_merged " refuse .*learner=b "
	! tape_has ' merge .*fragment=f000 ' || complain "it was merged"
}

@test "an answer under the name of another fragment or round: refused" {
	cp "run/learner/b/$a" "run/learner/b/$b"
	expect_not_merged " refuse .*learner=b "
}

@test "an old answer, copied to the name of a later round: refused" {
	small_run again
	run=again sync_run
	run=again learn c
	start p dl-pretend -r again -i p --fault again:0.5
	run=again
	until_true tape_has ' refuse .*learner=p '
	until_true tape_has ' merge .*[=,]p:'
	stopped sync
	# No answer stands in two merges.
	tape | sed -n 's/.* merge .* answers=//p' | tr ',' '\n' | cut -d : -f 1,2 | sed 's/ .*//' | sort | uniq -d >twice
	[ ! -s twice ] || complain "$(cat twice)"
	# Its tokens stand where it belongs, and nowhere else.
	! tape | grep ' refuse .*of round [0-9]*, this is round' | grep -v ' tokens=0 ' >counted || complain "$(cat counted)"
	run --separate-stderr in_time dl-sync -r again --replay
	expect_status 0
}

@test "an answer that counted, copied to another name or learner: counts once" {
	mkdir run/learner/copy
	cp run/learner/a/* run/learner/copy/
	cp "run/learner/a/$a" "run/learner/a/copy.delta"
	dl-sync -q -r run --once
	! tape_has ' merge .*[=,]copy:' || complain "a copy was merged"
	[ "$(merged run | wc -l)" -eq 2 ]
	run --separate-stderr in_time dl-sync -r run --replay
	expect_status 0
}

@test "answers of another run: refused" {
	small_run other -P 2 -K 2 --label other
	run=other learn b
	until_true [ -e other/learner/b/beat ]
	until_true eval 'dl-sync -q -r other --once; [ -e other/learner/b/'"$a"' ]'
	stopped b
	cp "other/learner/b/$a" "run/learner/b/$a"
	expect_not_merged " refuse .*learner=b .*"
}

@test "answers and beats of a stranger: refused" {
	rm "run/learner/b/$a"
	dl-key gen -o stranger
	mkdir run/learner/s
	dl-forge -k stranger.key -b run/global/f000/0.frag delta learner=s tokens=100 steps=10 >/dev/null 2>&1 || :
	cp "run/learner/a/$a" "run/learner/s/$a"
	flip_bit "run/learner/s/$a" 9000
	expect_not_merged ' call '
	! tape_has ' merge .*[=,]s:' || complain "a stranger counts"
}

@test "an answer that is a link: not followed" {
	mv "run/learner/b/$a" kept
	ln -s "$PWD/kept" "run/learner/b/$a"
	expect_not_merged ' call '
	rm "run/learner/b/$a"
	cp kept "run/learner/b/$a"
	until_true eval 'dl-sync -q -r run --once; [ "$(merged run | wc -l)" -ge 2 ]'
}
