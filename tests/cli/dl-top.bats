# dl-top: a run at a glance.

load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	printf '%s\n' 'd_model 16' 'layers 1' 'heads 2' 'ff 32' 'context 32' 'batch 4' >small.conf
	dl-init -r run -c small.conf -P 2 -H 6 --target-steps 20
}
setup() {
	cd "$BATS_TEST_TMPDIR" || return
	cp -r "$BATS_FILE_TMPDIR/run" .
}

@test "a run that nobody has begun is one plain screen, within 80 columns" {
	run -0 --separate-stderr in_time dl-top -1 run
	expect_no_stderr
	expect_stdout_like '^run run   [0-9a-f]{16}   not begun
step 0 of 20   learners 0 of 0 alive   syncer absent
tokens 0 trained, 0 merged   goodput -   0 tokens/s
merges 0, refused 0 \(0 late\)   H - of 6   K 1   tau 2   disk [0-9.]+k?
'
	awk 'length() > 80 { exit 1 }' <<<"$output"
	one=$output
	run -0 --separate-stderr in_time dl-top run </dev/null
	[ "${one//disk*/}" = "${output//disk*/}" ]
}

@test "--json is one object on one line" {
	run -0 --separate-stderr in_time dl-top --json run
	expect_no_stderr
	[ "${#lines[@]}" -eq 1 ]
	expect_stdout_like '^\{"directory":"run","run":"[0-9a-f]{32}","phase":"not begun","syncer":"absent",.*"training_loss":\[\]\}$'
	! command -v python3 >/dev/null || python3 -c 'import json, sys; json.load(sys.stdin)' <<<"$output"
}

@test "it only reads, and makes no key" {
	chmod -R a-w run
	dl-key show >own.pub
	find run | sort >before
	run -0 --separate-stderr env HOME="$PWD/empty" XDG_CONFIG_HOME= DL_TRUST="$PWD/own.pub" dl-top -1 run
	expect_no_stderr
	expect_no_file empty
	find run | sort >after
	chmod -R u+w run
	expect_same before after
}

@test "a relative DL_TRUST means the same inside of the run" {
	dl-key show >own.pub
	new_home
	run -0 --separate-stderr in_time env DL_TRUST=own.pub dl-top -1 run
	run -3 --separate-stderr in_time dl-top -1 run
	expect_stdout ""
	expect_stderr_line '^dl-top: .*manifest: .*not trusted'
}

@test "what is no run is refused" {
	mkdir empty
	run -1 --separate-stderr in_time dl-top -1 empty
	expect_stderr_line '^dl-top: empty: '
	run -1 --separate-stderr in_time dl-top -1 nowhere
	expect_stderr_line '^dl-top: nowhere: No such file'
	run -1 --separate-stderr in_time dl-top -1 "$BATS_FILE_TMPDIR/small.conf"
	expect_stderr_line '^dl-top: .*small.conf: '
}

@test "to a pipe it prints as many columns as COLUMNS says, and 80 without it" {
	widest() {
		dl-top -1 run | awk '{ n = length() > n ? length() : n } END { print n }'
	}
	[ "$(COLUMNS=45 widest)" -le 45 ]
	[ "$(COLUMNS=20 widest)" -le 40 ]
	for bad in '' 0 -3 x 99999999999999999999; do
		[ "$(COLUMNS=$bad widest)" = "$(env -u COLUMNS dl-top -1 run | awk '{ n = length() > n ? length() : n } END { print n }')" ]
	done
}

@test "wrong options are refused with status 2" {
	run -2 --separate-stderr in_time dl-top
	expect_stderr_line '^dl-top: which run\? give its directory$'
	run -2 --separate-stderr in_time dl-top run run
	expect_stderr_line "^dl-top: one run at a time, not 'run' too$"
	run -2 --separate-stderr in_time dl-top -1 -d 3 run
	expect_stderr_line '^dl-top: -1 looks once: no delay then$'
	run -2 --separate-stderr in_time dl-top -d 0.001 run
	expect_stderr_line '^dl-top: option --delay: between 0.1 and 86400 seconds$'
}

@test "strange files in the run are passed over" {
	mkdir -p run/learner/good run/learner/-rf "run/learner/a
b"
	mkfifo run/learner/good/beat
	ln -s /etc run/learner/away
	run -0 --separate-stderr timeout 60 dl-top -1 run
	expect_stdout_like $'\ngood           absent '
	expect_stdout_like $'\n1 unreadable: learner/good/beat: '
	[[ $output != *-rf* ]]
}

# unreadable PLACE: a single look shows what there is, and fails.
unreadable() {
	run -3 --separate-stderr in_time dl-top -1 run
	expect_stderr_line "^dl-top: $1"
	expect_stdout_like '^run run   [0-9a-f]{16}   unreadable
step 0 of 20   learners 0 of 0 alive   syncer unknown
'
	run -3 --separate-stderr in_time dl-top --json run
	expect_stderr_line "^dl-top: $1"
	expect_stdout_like '"phase":"unreadable","syncer":"unknown",'
	run -3 --separate-stderr in_time dl-show --why run
	expect_stderr_line "^dl-show: (run: )?$1"
	expect_stdout_like "^the head can't be read
"
}
@test "a head that is damaged, cut or of a stranger is no run that has not begun" {
	in_time dl-sync -q -r run --once || [ $? -eq 4 ]
	cp run/head whole
	flip_bit run/head 2400
	unreadable 'head: frame 0: seal does not verify$'
	: >run/head
	unreadable 'head: '
	run -3 --separate-stderr in_time dl-show run/head
	(new_home && dl-init -r other -c "$BATS_FILE_TMPDIR/small.conf" && dl-sync -q -r other --once || [ $? -eq 4 ])
	cp other/head run/head
	unreadable 'head: .*not trusted'
	cp whole run/head
	run -0 --separate-stderr in_time dl-top -1 run
	expect_no_stderr
}

# on_terminal KEYS: runs dl-top on a terminal of 24 lines, types KEYS when it has been drawn twice, and leaves
# what was written in typescript.
on_terminal() {
	command -v script >/dev/null || skip "no script"
	: >typescript
	{
		for _ in {1..300}; do
			! grep -q $'\033\\[J' typescript || break
			sleep 0.1
		done
		printf '%b' "$1"
		for _ in {1..300}; do
			! grep -q '^Script done' typescript || break
			sleep 0.1
		done
	} | timeout 60 script -qfec "trap : INT; stty rows 24 cols 60; dl-top -d 0.2s run; echo status \$?
		stty -a | grep -o -e '-\?icanon' -e '-\?echo '; echo Script done" typescript
}
@test "on a terminal it is drawn over and over until q, and the terminal is as before" {
	on_terminal q >/dev/null
	[ "$(grep -c 'not begun' typescript)" -ge 2 ]
	grep -q $'\033\\[[0-9]*A\033\\[J' typescript   # up and over
	! grep -q $'\033\\[?' typescript || complain "a mode was switched"
	! grep -q $'\033\\[[0-9;]*m' typescript || complain "colours"
	grep -q '^status 0' typescript
	grep -q '^icanon' typescript
	grep -q '^echo ' typescript
	awk '{ gsub(/\033\[[0-9]*[AJ]/, ""); gsub(/\r/, ""); if (length() > 60 && !/Script/) exit 1 }' typescript
}

@test "on a terminal a damaged head is told of, and it goes on looking" {
	echo damaged >run/head
	on_terminal q >/dev/null
	[ "$(grep -c '1 unreadable: head: ' typescript)" -ge 2 ]
	grep -q '^status 0' typescript
}

@test "Ctrl-C leaves the terminal as before" {
	on_terminal '\003' >/dev/null
	grep -q '^icanon' typescript
	grep -q '^echo ' typescript
}
