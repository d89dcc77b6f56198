# What befalls a run from outside: files that are changed, damaged, moved or rolled back under it, clocks that
# jump, floods of names. It goes on, or says what is wrong and ends.

# shellcheck disable=SC2004,SC2034,SC2030,SC2031,SC2314 # variables of decoupled.bash
load helper
load decoupled

setup_file() {
	setup_runs
	setup_run
	small_run ready # a run that was under way, for those that look at what is left
	run=ready sync_run
	run=ready learn a
	run=ready more_merges 6
	stopped sync a
}
setup() {
	setup_run
}

newest() { # DIRECTORY
	find "$1" -type f -printf '%f\n' | sort -n | tail -n 1
}
middle_flipped() { # FILE: in a new file of its name, as rsync would bring it
	cp "$1" flipped
	flip_bit flipped $(($(stat -c %s flipped) * 4))
	mv flipped "$1"
}

# ---- the tape ----

# spoilt HOW: the tape of a run whose syncer is down; the syncer refuses, and so does whoever looks at it.
spoilt() {
	local tape=run/syncer/tape.1 n
	rm -rf run
	cp -r "$BATS_FILE_TMPDIR/ready" run
	n=$(wc -l <$tape)
	case $1 in
	changed) sed -i '5s/ incarnation=1/ incarnation=2/;5s/round=1 /round=2 /;5s/ steps=/ stepz=/' $tape ;;
	removed) sed -i "$((n / 2))d" $tape ;;
	swapped) sed -i "$((n / 2)){h;d};$((n / 2 + 1)){G}" $tape ;;
	cut) sed -i "$((n / 3)),\$d" $tape ;;
	halved) truncate -s $(($(stat -c %s $tape) / 2)) $tape ;;
	emptied) : >$tape ;;
	gone) rm $tape ;;
	appended) echo "junk junk" >>$tape ;;
	esac
}
@test "a tape that was changed while nobody wrote to it: the syncer does not start, status 3" {
	local how
	for how in changed removed swapped cut halved emptied gone appended; do
		spoilt $how
		run -3 --separate-stderr in_time dl-sync -r run
		expect_stderr_line '^dl-sync: syncer/(tape\.1: line [0-9]+: |: the tape ends at line [0-9]+, before f[0-9]+\.[0-9]+, which)'
		run -3 --separate-stderr dl-sync -r run --replay
		run -3 --separate-stderr dl-show --tape run
	done
	expect_stderr_like "junk"
	run -3 --separate-stderr in_time dl-sync -r run
	expect_stderr_line 'cut off what is behind line [0-9]+$'
}

@test "half a line at the end of a tape is cut off, and the run goes on" {
	cp -r "$BATS_FILE_TMPDIR/ready" run
	printf '99 1.5 publish rou' >>run/syncer/tape.1
	sync_run
	learn a
	more_merges 2
	stopped sync a
	expect_sound run
}

@test "lines that somebody appends to the tape of a syncer at work are cut off" {
	small_run run
	sync_run
	learn a
	more_merges 2
	echo "9999 1.0 publish round=9999" >>run/syncer/tape.1
	until_true grep -q "tape\.1: line .* somebody else wrote to it: 28 bytes are cut off" sync.log
	more_merges 3
	stopped sync a
	expect_sound run
}

@test "a tape that is cut or replaced under the syncer ends it, status 3" {
	small_run run
	local how
	for how in cut replaced; do
		rm -rf run
		cp -r "$BATS_FILE_TMPDIR/ready" run
		: >sync.log
		sync_run
		learn a
		until_true [ -e run/syncer/tape.2 ]
		more_merges 1
		case $how in
		cut) truncate -s 100 run/syncer/tape.2 ;;
		replaced) cp run/syncer/tape.2 copy && mv copy run/syncer/tape.2 ;;
		esac
		ends sync 3
		tail -n 1 sync.log | grep -qE '^dl-sync: syncer/tape\.2: line [0-9]+: the tape was .*: bring it back' ||
			complain "$(tail -n 3 sync.log)"
		kill -TERM "${pids[a]}"
		ended a
	done
}

# ---- fragments, momentum, and the rest ----

# while_still NAME COMMAND...: with that one held.
while_still() {
	kill -STOP "${pids[$1]}"
	"${@:2}"
	kill -CONT "${pids[$1]}"
}
# A run of which all versions are out, and a learner that lies still: it has no more steps to be called for.
five_merges_and_still() {
	small_run run
	sync_run
	learn a
	more_merges 5
	kill -STOP "${pids[a]}"
	until_true still # what is called for and answered is merged
}
still() {
	local was
	was=$(tape_count .)
	sleep 1
	[ "$(tape_count .)" -eq "$was" ]
}

@test "a newest version that is lost, with its momentum, is made again, the same to the byte, and the run goes on" {
	five_merges_and_still
	local version have
	version=$(newest run/global/f002)
	cp "run/global/f002/$version" kept
	rm "run/syncer/outer/f002/${version%.frag}.outer" "run/global/f002/$version"
	until_true grep -q "^dl-sync: global/f002/$version: not there: it was made again from its answers, the same\$" sync.log
	expect_same kept "run/global/f002/$version"
	kill -CONT "${pids[a]}"
	have=$(tape_count ' publish .*fragment=f002 ')
	until_true tape_has $((have + 2)) ' publish .*fragment=f002 '
	! tape_has ' merge .* prior=none ' || complain "its momentum is lost"
	stopped sync a
	expect_sound run
}

@test "a newest version that is lost is told to those who ask, be there a round of it or a syncer or not" {
	cp -r "$BATS_FILE_TMPDIR/ready" run
	local p version
	for p in 0 1 2 3; do
		version=$(newest "run/global/f00$p")
		mv "run/global/f00$p/$version" kept
		run -0 --separate-stderr dl-show --why run
		expect_stdout_like "global/f00$p/$version, the newest version of its fragment, is not there: .*bring it back"
		[ "$(grep -c 'not there' <<<"$output")" -eq 1 ] || complain
		mv kept "run/global/f00$p/$version"
	done
	run -0 --separate-stderr dl-show --why run
	! grep 'not there' <<<"$output" || complain
}

@test "a newest version that is lost between two passes of cron is made again by the next one" {
	cp -r "$BATS_FILE_TMPDIR/ready" run
	local version
	version=$(newest run/global/f001)
	cp "run/global/f001/$version" kept
	rm "run/global/f001/$version"
	run --separate-stderr dl-sync -r run --once
	expect_stderr_like "^dl-sync: global/f001/$version: not there: it was made again from its answers, the same"
	expect_same kept "run/global/f001/$version"
	expect_sound run
}

@test "fragments that are moved away for a while: the syncer says so once, the others go on, and so does it when they are back" {
	small_run run --lease 60s
	sync_run
	learn a
	more_merges 5
	while_still sync mv run/global/f003 away
	until_true grep -qE "^dl-sync: global/f003/[0-9]+\.frag: not there, and it can't be made again \(.*not there\): f003 stands still: bring it back" sync.log
	local have
	have=$(tape_count ' publish .*fragment=f001 ')
	until_true tape_has $((have + 2)) ' publish .*fragment=f001 '
	until_true eval 'dl-show --why run | grep -q "global/f003/[0-9]*.frag is not there: bring it back"'
	rm -rf run/global/f003
	mv away run/global/f003
	until_true grep -qE '^dl-sync: global/f003/[0-9]+\.frag: is there again, as it was published' sync.log
	have=$(tape_count ' publish .*fragment=f003 ')
	until_true tape_has $((have + 2)) ' publish .*fragment=f003 '
	[ "$(grep -c 'f003 stands still' sync.log)" -eq 1 ] || complain "$(grep f003/ sync.log)"
	stopped sync a
	expect_sound run
}

@test "a fragment without which no checkpoint can be made: the syncer says so, and the others go on" {
	small_run run --lease 60s --checkpoint-every 10
	sync_run
	learn a
	more_merges 5
	gone() {
		rm -rf run/global/f003 run/learner/a/f003.*
	}
	while_still sync gone
	until_true grep -qE "^dl-sync: global/f003/[0-9]+\.frag: not there: there is no checkpoint: trying again" sync.log
	local have p
	for p in 0 1 2; do
		have=$(tape_count " publish .*fragment=f00$p ")
		until_true tape_has $((have + 2)) " publish .*fragment=f00$p "
	done
	stopped sync
	have=$(tape_count ' publish ')
	passes() { # of cron, until one has merged
		dl-sync -q -r run --once 2>>once.log
		tape_has $((have + 1)) ' publish '
	}
	until_true passes
	grep -qE '^dl-sync: global/f003/[0-9]+\.frag: not there$' once.log || complain "$(cat once.log)"
	stopped a
}

@test "fragments that are gone for good end the syncer, status 3, with what to type" {
	small_run run --lease 1s --checkpoint-every 10
	sync_run
	learn a
	more_merges 5
	while_still sync rm -r run/global/f003
	ends sync 3
	tail -n 1 sync.log >last
	grep -qE "^dl-sync: global/f003/[0-9]+\.frag: not there, and it can't be made again \(.*\): bring it back and start the syncer again, or begin a new run from the last checkpoint: dl-init -r NEW ckpt/[0-9]+\.ckpt\$" last ||
		complain "$(cat last)"
	dl-init -r new "run/$(sed 's/.* //' last)"
}

@test "a fragment with a wrong bit is made again before it is merged into" {
	small_run run
	sync_run
	learn a
	more_merges 5
	local last=
	flip_newest() { # each of them, until one is merged into
		local now
		now=$(newest run/global/f002)
		if [ "$now" != "$last" ]; then
			[ -z "$last" ] || cp kept "run/global/f002/$last" # what the newest comes from is whole
			cp "run/global/f002/$now" kept
			middle_flipped "run/global/f002/$now"
			last=$now
		fi
		grep -qE 'global/f002/[0-9]+\.frag: .*: it was made again from its answers' sync.log
	}
	until_true flip_newest
	more_merges 4
	stopped sync a
	expect_sound run
}

@test "a damaged version 0 is in nobody's way when there is a newer one, else the syncer does not start" {
	cp -r "$BATS_FILE_TMPDIR/ready" run
	[ "$(newest run/global/f001)" != 0.frag ]
	truncate -s 100 run/global/f001/0.frag
	sync_run
	learn a
	more_merges 2
	stopped sync a
	small_run fresh
	truncate -s 100 fresh/global/f001/0.frag
	run -3 --separate-stderr in_time dl-sync -r fresh
	expect_stderr_line '^dl-sync: global/f001/0\.frag: '
}

# killed_at CALL: the syncer is killed instead of its tenth such call below global/: it has decided a merge, which its
# tape tells last, and carries it out.
killed_at() {
	FAULT_UNDER=/global/ under="dl-break $1 kill 10" sync_run
	learn a
	ends sync 137
	stopped a
}
@test "momentum or a fragment that is damaged between its decision and its publication is written again" {
	need_plain_build
	local which round fragment version
	for which in outer frag; do
		rm -rf run
		small_run run
		case $which in
		outer) killed_at link ;; # V.frag is about to get its name
		frag) killed_at fsync ;; # and has it
		esac
		read -r round fragment version < <(tape |
			sed -nE '$s/.* merge round=([0-9]+) fragment=(f[0-9]+) version=([0-9]+) .*/\1 \2 \3/p')
		case $which in
		outer) middle_flipped "run/syncer/outer/$fragment/$version.outer" ;;
		frag) middle_flipped "run/global/$fragment/$version.frag" ;;
		esac
		sync_run
		learn a
		until_true tape_has " publish round=$round "
		more_merges 2
		stopped sync a
		expect_sound run
	done
}

@test "momentum that is damaged or lost starts from zero, and the replay knows" {
	cp -r "$BATS_FILE_TMPDIR/ready" run
	middle_flipped "run/syncer/outer/f000/$(newest run/syncer/outer/f000)"
	rm "run/syncer/outer/f001/$(newest run/syncer/outer/f001)"
	sync_run
	learn a
	until_true tape_has 2 ' merge .* prior=none '
	more_merges 4
	tape_has 2 ' merge .* prior=none ' && ! tape_has 3 ' merge .* prior=none '
	grep -qE 'syncer/outer/f000/[0-9]+\.outer: lost or damaged: the momentum of f000 starts from zero' sync.log
	stopped sync a
	expect_sound run
}

@test "head, beats, answers, states and epochs with wrong bits: the run goes on" {
	small_run run
	sync_run
	learn a
	learn b
	until_true tape_has ' merge .*[=,]a:'
	local i path
	for i in 1 2 3; do
		for path in head learner/a/beat learner/b/state syncer/epoch.1 "learner/a/$(newest run/learner/a)"; do
			[[ $path != *.delta && ! -e run/$path ]] || middle_flipped "run/$path" 2>/dev/null || :
		done
		more_merges 2
	done
	more_merges 4
	stopped sync a b
	run -0 --separate-stderr dl-show --ledger run
}

# ---- the manifest ----

@test "a manifest that is rolled back: it does not count, whoever starts is told, and nobody changes it" {
	dl-key gen -o other
	small_run run
	dl-key admit -r run -n other other.pub
	cp run/manifest older
	dl-key revoke -r run other
	cp run/manifest newest
	sync_run
	learn a
	more_merges 2
	cp older tmp && mv tmp run/manifest
	until_true grep -q "^dl-sync: manifest: is of serial 2, where 3 counts: rolled back" sync.log
	until_true grep -q "^dl-learn: manifest: is of serial 2, where 3 counts: rolled back" a.log
	more_merges 2
	stopped sync a
	run -3 --separate-stderr in_time dl-sync -r run
	expect_stderr_line '^dl-sync: manifest: is of serial 2, and the run has seen 3: '
	run -3 --separate-stderr in_time dl-learn -r run -i a -d "$BATS_FILE_TMPDIR/part.0.tok"
	expect_stderr_line '^dl-learn: manifest: .*rolled back'
	run -3 --separate-stderr dl-key admit -r run other.pub
	expect_stderr_line '^dl-key: run: manifest: is of serial 2, and the head knows 3: rolled back: bring back the newest$'
	cp newest run/manifest
	sync_run
	learn a
	more_merges 1
	stopped sync a
}

@test "a syncer whose key is revoked while it works leaves, status 3" {
	dl-key gen -o worker
	mkdir trusted
	cp "$HOME/.config/dl/default.pub" trusted/
	small_run run
	dl-key admit -r run --as syncer -n worker worker.pub
	sync_run -k worker.key --trust trusted
	learn a
	more_merges 1
	dl-key revoke -r run worker
	ends sync 3
	stopped a
}

@test "a manifest that comes when the tape can't be written to counts as a whole when it can" {
	need_plain_build
	dl-key gen -o other
	mkdir trusted
	cp "$HOME/.config/dl/default.pub" trusted/
	small_run run
	dl-key admit -r run -n other other.pub
	FAULT_UNDER=/syncer/tape under="dl-break write ENOSPC while:$PWD/full" sync_run
	learn a
	learn b -k other.key --trust trusted
	until_true tape_has ' merge .*[=,]b:'
	touch full
	dl-key revoke -r run other
	until_true eval 'dl-show run/head | grep -qE "serial +3"'
	! tape_has ' manifest serial=3' || complain "the tape could be written to"
	rm full
	until_true tape_has ' manifest serial=3'
	until_true tape_has ' gone learner=b'
	[ "$(tape_count ' manifest serial=3')" -eq 1 ]
	more_merges 2
	ends b 3
	stopped sync a
	expect_sound run
}

# ---- members ----

# with_other ROLE: a run with a second key, other, in that role; a list for each to trust: mine with both, its with mine.
with_other() {
	dl-key gen -o other
	dl-key trust -T mine -n other other.pub
	mkdir its
	cp "$HOME/.config/dl/default.pub" its/owner.pub
	small_run run
	dl-key admit -r run --as "$1" -n other other.pub
}
# told NAME WHAT: as the beat of that learner has it.
told() {
	dl-show -T mine "run/learner/$1/beat" | sed -nE "s/^  ($2 +[0-9]+).*/\1/p"
}
beats_again() {
	local before
	before=$(told "$1" counter)
	until_true eval '[ "$(told '"$1"' counter)" != "'"$before"'" ]'
}
# nothing_adopted NAME: the learner follows no head any more, and trains on.
nothing_adopted() {
	local versions steps
	beats_again "$1" && beats_again "$1" # what it had fetched before is adopted by then
	versions=$(told "$1" 'f[0-9]+') steps=$(told "$1" steps)
	more_merges 3
	beats_again "$1"
	[ "$(told "$1" steps)" != "$steps" ] || complain "it does not train"
	[ -n "$versions" ] && [ "$(told "$1" 'f[0-9]+')" = "$versions" ] || complain "it adopts"
}

@test "a learner that the syncer's user revokes while both work counts no more" {
	with_other learner
	sync_run -T mine
	learn a
	learn b -k other.key --trust its
	until_true tape_has ' merge .*[=,]b:'
	dl-key revoke -T mine other
	until_true tape_has ' gone learner=b'
	more_merges 4
	! tape | sed '1,/ gone learner=b/d' | grep -E ' merge .*[=,]b:' || complain "b is revoked and counts"
	stopped sync a b
	grep -q '^dl-sync: learner b is not of the run any more$' sync.log || complain "$(tail sync.log)"
	run -0 --separate-stderr dl-show --ledger -T mine run
	run -0 --separate-stderr in_time dl-sync -r run --replay
}

@test "a learner whose user revokes the owner leaves, status 3, as one that starts" {
	with_other learner
	sync_run
	learn b -k other.key --trust its
	more_merges 2
	dl-key revoke -T its owner
	ends b 3
	grep -qE '^dl-learn: manifest: signed by [0-9a-f]+ owner, which is revoked$' b.log || complain "$(tail b.log)"
	stopped sync
}

@test "with no syncer at work a learner whose user revokes the owner leaves, too" {
	with_other learner
	learn b -k other.key --trust its
	until_true [ -e run/learner/b/beat ]
	dl-key revoke -T its owner
	ends b 3
}

@test "a syncer whose user revokes the owner, or itself, leaves, status 3" {
	with_other both
	sync_run -k other.key -T its
	learn a
	more_merges 1
	dl-key revoke -T its owner
	ends sync 3
	grep -qE '^dl-sync: manifest: signed by [0-9a-f]+ owner, which is revoked$' sync.log || complain "$(tail sync.log)"
	rm its/revoked
	sync_run -k other.key -T its
	more_merges 1
	dl-key revoke -T its "$(dl-key show -f other.pub)"
	ends sync 3
	stopped a
}

@test "a learner whose user revokes the syncer follows its heads no more" {
	with_other syncer
	sync_run -k other.key -T its
	learn a --trust mine
	learn b
	more_merges 2
	dl-key revoke -T mine other
	until_true grep -q '^dl-learn: head: signed by .* which is revoked: ignored$' a.log
	nothing_adopted a
	stopped sync a b
}

@test "while a list of revoked keys can't be read a syncer merges nothing, and a learner adopts nothing" {
	with_other learner
	sync_run -T mine
	learn a
	learn b -k other.key --trust its
	until_true tape_has ' merge .*[=,]b:'
	echo nonsense >its/revoked
	until_true grep -q '^dl-learn: .*/its/revoked: line 1: not a fingerprint .*: no news is taken$' b.log
	nothing_adopted b
	rm its/revoked
	echo nonsense >mine/revoked
	until_true grep -q '^dl-sync: .*/mine/revoked: line 1: not a fingerprint .*: trying again$' sync.log
	local have
	have=$(tape_count ' publish ')
	sleep 1
	[ "$(tape_count ' publish ')" = "$have" ] || complain "it merges"
	rm mine/revoked
	more_merges 2
	stopped sync a b
}

@test "the books of a learner that is revoked are what the tape says, and balance" {
	dl-key gen -o other
	mkdir trusted
	cp "$HOME/.config/dl/default.pub" trusted/
	small_run run
	dl-key admit -r run -n other other.pub
	sync_run
	learn a
	learn b -k other.key --trust trusted
	until_true tape_has ' merge .*[=,]b:'
	dl-key revoke -r run other
	ends b 3
	until_true tape_has ' gone learner=b'
	more_merges 2
	! tape | tail -n 4 | grep -E ' merge .*[=,]b:' || complain "b is revoked and counts"
	stopped sync a
	expect_sound run
	run -0 dl-show --ledger run
	expect_stdout_like $'\n  b .* revoked\n'
	run -0 dl-show --ledger --json run
	expect_stdout_like '"learner":"b",[^}]*"balanced":true,"revoked":true'
}

@test "a learner that lies about what it has trained does not end the run" {
	small_run run --target-tokens 1000000
	learn a
	until_true [ -e run/learner/a/beat ]
	mkdir -p run/learner/liar
	dl-scribe run <<<"beat liar 900000000 0 0 0" # this much, and never an answer
	sync_run
	until_true tape_has ' join learner=liar'
	more_merges 3
	! tape_has ' finish ' || [ "$(tape | sed -nE 's/.* done .*tokens=([0-9]+) .*/\1/p')" -gt 500000 ] ||
		complain "the run ended"
	ended sync a
}

@test "a flood of names, and of lives of one of them: the run goes on" {
	small_run run
	sync_run
	learn a
	more_merges 1
	start flood dl-pretend -r run -i flood -m 300
	until_true tape_has 20 ' join .*learner=flood'
	local i
	for i in {1..15}; do
		dl-pretend -r run -i again --for 0.01s
	done
	more_merges 2
	stopped flood
	stopped a sync
	run --separate-stderr dl-sync -r run --replay
	expect_status 0
}

@test "a learner's directory that is a link is told once" {
	small_run run
	mkdir -p run/learner
	ln -s /etc run/learner/away
	sync_run
	learn a
	more_merges 4
	sleep 4 # two listings, at least
	[ "$(grep -c 'learner/away' sync.log)" -le 1 ] || complain "$(grep away sync.log)"
	stopped sync a
}

# ---- clocks and places ----

@test "clocks that jump by years, forth and back: nobody is lost for it" {
	need_plain_build
	small_run run
	echo 0 >by
	under="dl-break none - clock:$PWD/by" sync_run
	under="dl-break none - clock:$PWD/by" learn a
	learn b
	local by
	for by in 7200 -86400 3e8 -1e9 0; do
		more_merges 2
		echo "$by" >by
		run -0 dl-break none - "clock:$PWD/by" dl-show --why run
		expect_stdout_like '2 of 2 learners alive; syncer alive'
	done
	more_merges 2
	! tape_has ' lost ' || complain "somebody was lost"
	stopped sync a b
	expect_sound run
}

@test "temporary files in another file system than the run's" {
	[ -d /dev/shm ] && [ -w /dev/shm ] && [ "$(stat -c %d /dev/shm)" != "$(stat -c %d .)" ] ||
		skip "no other file system"
	TMPDIR=$(mktemp -d /dev/shm/dl-test.XXXXXX)
	small_run run --target-steps 60
	sync_run
	learn a
	ended sync a
	expect_sound run
	rmdir "$TMPDIR" || complain "left behind: $(ls -A "$TMPDIR")"
}
