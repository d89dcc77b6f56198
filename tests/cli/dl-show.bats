load helper

setup_file() {
	cd "$BATS_FILE_TMPDIR" || return
	dl-forge checkpoint round=3 name=first a:2x3:1,2,3,-4,0 b:scalar:0.5 >a.ckpt
	dl-forge -e bf16 checkpoint round=3 name=first a:2x3:1,2,3,-4,0 b:scalar:0.5 >half.ckpt
	dl-forge checkpoint round=4 other=x a:2x3:1,2,3.5,-4,0 b:scalar:0.5 >b.ckpt
	dl-forge odd a:5:nan,1,inf,-2,-inf >strange
}
setup() {
	cd "$BATS_TEST_TMPDIR" || return
	cp "$BATS_FILE_TMPDIR"/*.ckpt "$BATS_FILE_TMPDIR/strange" .
}

@test "shows header, tensors and identity" {
	run -0 --separate-stderr dl-show a.ckpt
	expect_no_stderr
	expect_stdout_like '^a\.ckpt'
	expect_stdout_like '  kind +checkpoint'
	expect_stdout_like '  round +3'
	expect_stdout_like '  signer +[0-9a-f]{32} \([A-Za-z0-9._-]+\)'
	expect_stdout_like '  tensors +2, 7 elements'
	expect_stdout_like '  a +2x3 +f32 +-4 +3 +0.333333 +5.47723 +0'
	expect_stdout_like '  b +scalar +f32 +0.5 +0.5 +0.5 +0.5 +0'
	expect_stdout_like '  identity +[0-9a-f]{64}'
	expect_stdout_like "  bytes +$(stat -c %s a.ckpt)"
}

@test "values of the header stand in one column, and a first checkpoint says it is at 0" {
	dl-init >g0.ckpt
	dl-show g0.ckpt | sed -n '2,/^$/p' >head
	[ "$(sed '/^$/d; s/^\(  [^ ]* *\).*/\1/' head | awk '{ print length() }' | sort -u | wc -l)" -eq 1 ]
	for key in round step tokens; do grep -qE "^  $key +0$" head; done
}

@test "reads standard input, named or not, also slowly" {
	dl-show a.ckpt | sed 1d >want
	(head -c 100 a.ckpt && sleep 0.2 && tail -c +101 a.ckpt) | dl-show | sed 1d >have
	expect_same want have
	dl-show - <a.ckpt | sed 1d >have
	expect_same want have
	run -0 --separate-stderr dl-show - <a.ckpt
	expect_stdout_like '^standard input'
}

@test "values that are not finite are counted and left out" {
	run -0 --separate-stderr dl-show strange
	expect_stdout_like '  kind +odd'
	expect_stdout_like '  a +5 +f32 +-2 +1 +-0.5 +2.23607 +3'
	run -0 --separate-stderr dl-show --json strange
	expect_stdout_like '"min":-2,"max":1,"mean":-0.5,.*"nonfinite":3'
	dl-forge strange a:1:nan >none
	run -0 --separate-stderr dl-show none
	expect_stdout_like '  a +1 +f32 +- +- +- +0 +1'
	run -0 --separate-stderr dl-show --json none
	expect_stdout_like '"min":null,"max":null,"mean":null,"norm":0,"nonfinite":1'
}

@test "several files, also when one of them is missing or no dl file" {
	echo text >text
	run -1 --separate-stderr dl-show a.ckpt missing text b.ckpt
	expect_stdout_like '^a\.ckpt'
	expect_stdout_like $'\n\nb\\.ckpt\n'
	expect_stderr_like '^dl-show: missing: No such file or directory'
	expect_stderr_like 'dl-show: text: not a dl file$'
}

@test "JSON is one object a line, with every number and string right" {
	command -v python3 >/dev/null || skip "no python3"
	dl-forge "with \"quotes\" and \\" 'text=ä	tab' a:2:0.1,-1e-30 >odd
	dl-show --json a.ckpt odd >out
	run -0 python3 - out <<-'END'
		import json, sys
		a, odd = map(json.loads, open(sys.argv[1], encoding="utf-8"))
		assert a["file"] == "a.ckpt" and a["format"] == 1 and a["signer"]["trusted"] is True
		assert a["header"] == {"kind": "checkpoint", "round": 3, "name": "first"}
		assert a["tensors"][0] == {"name": "a", "dtype": "f32", "shape": [2, 3], "encoding": "f32", "min": -4,
			"max": 3, "mean": 2 / 6, "norm": 30 ** .5, "nonfinite": 0}, a["tensors"]
		assert a["tensors"][1]["shape"] == []
		assert len(a["identity"]) == len(a["content"]) == 64
		assert odd["header"] == {"kind": 'with "quotes" and \\', "text": "ä\ttab"}, odd
	END
}

@test "JSON is printed only of files that are intact up to the end" {
	head -c -1 a.ckpt >cut.ckpt
	run -3 --separate-stderr dl-show --json cut.ckpt b.ckpt
	expect_stdout_like '^\{"file":"b\.ckpt".*\}$'
	[ "${#lines[@]}" -eq 1 ]
	expect_stderr_line '^dl-show: cut\.ckpt: truncated: ends inside the trailer$'
}

@test "--verify and -q print nothing, -v says what was verified" {
	run -0 --separate-stderr dl-show --verify a.ckpt b.ckpt
	expect_stdout ""
	expect_no_stderr
	run -0 --separate-stderr dl-show -q a.ckpt
	expect_stdout ""
	run -0 --separate-stderr dl-show -v --verify a.ckpt
	expect_stdout ""
	expect_stderr_line "^dl-show: a\.ckpt: intact, [0-9a-f]{64}, signed by [0-9a-f]{32} \([A-Za-z0-9._-]+\), $(stat -c %s a.ckpt) bytes$"
}

@test "a stranger's file is shown, with a warning and status 3" {
	new_home
	run -3 --separate-stderr dl-show a.ckpt
	expect_stdout_like '  signer +[0-9a-f]{32} \(not trusted\)'
	expect_stdout_like '  identity '
	expect_stderr_line '^dl-show: a\.ckpt: signed by [0-9a-f]+.*, which is not trusted'
	run -3 --separate-stderr dl-show --verify a.ckpt
	expect_stdout ""
	run -3 --separate-stderr dl-show --json a.ckpt
	expect_stdout_like '"name":null,"trusted":false,"revoked":false'
}

@test "a key that was revoked is not trusted, and one that is trusted has its name" {
	dl-key gen -o eve
	dl-forge -k eve.key checkpoint a:1:1 >eve.ckpt
	run -3 dl-show --verify eve.ckpt
	dl-key trust -n mallory eve.pub
	run -0 --separate-stderr dl-show eve.ckpt
	expect_stdout_like '  signer +[0-9a-f]{32} \(mallory\)'
	dl-key revoke mallory
	run -3 --separate-stderr dl-show eve.ckpt
	expect_stdout_like '  signer +[0-9a-f]{32} \(revoked\)'
	expect_stderr_like 'revoked'
	run -3 --separate-stderr dl-show --json eve.ckpt
	expect_stdout_like '"name":null,"trusted":false,"revoked":true'
}

@test "content depends on values alone, not on key, encoding or header" {
	content() { dl-show "$1" | sed -n 's/^  content *//p'; }
	identity() { dl-show "$1" | sed -n 's/^  identity *//p'; }
	want=$(content a.ckpt)
	[ -n "$want" ]
	[ "$(content half.ckpt)" = "$want" ]
	[ "$(content b.ckpt)" != "$want" ]
	dl-forge something else=x a:2x3:1,2,3,-4,0 b:scalar:0.5 >c.ckpt
	[ "$(content c.ckpt)" = "$want" ]
	[ "$(identity c.ckpt)" != "$(identity a.ckpt)" ]
	dl-forge checkpoint a:3x2:1,2,3,-4,0 b:scalar:0.5 >d.ckpt
	[ "$(content d.ckpt)" != "$want" ]
	dl-forge -e f32r checkpoint a:2x3:1,2,3,-4,0 b:scalar:0.5 >e.ckpt
	[ "$(content e.ckpt)" = "$want" ]
	dl-key gen -o key
	dl-forge -k key.key checkpoint a:2x3:1,2,3,-4,0 b:scalar:0.5 >f.ckpt
	[ "$(dl-show -T key.pub f.ckpt 2>&1 | sed -n 's/^  content *//p')" = "$want" ]
}

@test "--diff of equal values is status 0, whatever the encoding" {
	run -0 --separate-stderr dl-show --diff a.ckpt a.ckpt
	expect_no_stderr
	expect_stdout_like 'all values are equal$'
	run -0 --separate-stderr dl-show --diff a.ckpt half.ckpt
	expect_stdout_like '  a +2x3 +f32 +0 +0 +0 +1 +0'
	run -0 dl-show --diff - a.ckpt <half.ckpt
	run -0 dl-show --diff strange strange
}

@test "--diff of values that differ is status 1 and says where" {
	run -1 --separate-stderr dl-show --diff a.ckpt b.ckpt
	expect_no_stderr
	expect_stdout_like '  round +3 \| 4'
	expect_stdout_like '  name +first \| -'
	expect_stdout_like '  other +- \| x'
	expect_stdout_like '  a +2x3 +f32 +1 +0.5 +0.5 +0.99'
	expect_stdout_like '  b +scalar +f32 +0 +0 +0 +1 +0'
	expect_stdout_like $'\n  all +1 +0.5 +0.5 +0.99[0-9]* +0\n'
	expect_stdout_like '1 of 2 tensors differ$'
	run -1 --separate-stderr dl-show -q --diff a.ckpt b.ckpt
	expect_stdout ""
	run -1 --separate-stderr dl-show --json --diff a.ckpt b.ckpt
	expect_stdout_like '"header":\{"round":\[3,4\],"name":\["first",null\],"other":\[null,"x"\]\}'
	expect_stdout_like '"differ":1,"max":0.5,"norm":0.5,"cosine":0.99[0-9]*,"nonfinite":0'
	expect_stdout_like '"all":\{"elements":7,"differ":1,"max":0.5,"norm":0.5,"cosine":0.99[0-9]*,"nonfinite":0\}'
	expect_stdout_like '"equal":false\}$'
}

@test "--diff refuses another layout and a file that is cut" {
	dl-forge checkpoint a:2x3:1 >short.ckpt
	run -1 --separate-stderr dl-show --diff a.ckpt short.ckpt
	expect_stderr_line "^dl-show: short\.ckpt: not the layout of 'a\.ckpt': 1 tensors, not 2$"
	head -c -10 b.ckpt >cut.ckpt
	run -3 --separate-stderr dl-show --diff b.ckpt cut.ckpt
	[[ $output != *equal* ]]
	expect_stderr_line '^dl-show: cut\.ckpt: truncated'
}

@test "shards show their vocabulary and the range of their ids" {
	corpus 5000 >text
	dl-data -o part text
	run -0 --separate-stderr dl-show part.tok
	expect_stdout_like '  kind +shard'
	expect_stdout_like '  vocab +256'
	expect_stdout_like '  tokens +[0-9]+ +raw +10 +12[0-9] +- +- +0'
	run -0 --separate-stderr dl-show --json part.tok
	expect_stdout_like '"dtype":"u8","shape":\[[0-9]+\],"encoding":"raw","min":10,"max":12[0-9]'
}

@test "threads change nothing" {
	dl-forge -e f32r checkpoint a:500x700:normal,1,0.02 b:70000:normal,2,1 >big.ckpt
	dl-show -j 1 big.ckpt >one
	dl-show -j 5 big.ckpt >five
	expect_same one five
	dl-show -j 3 <big.ckpt | sed 1d | cmp - <(sed 1d one)
}

@test "wrong usage is status 2" {
	run -2 --separate-stderr dl-show --diff a.ckpt
	expect_stderr_line '^dl-show: --diff compares two files, not 1$'
	run -2 dl-show --diff a.ckpt b.ckpt a.ckpt
	run -2 dl-show --verify --json a.ckpt
	run -2 dl-show --verify --diff a.ckpt b.ckpt
	run -2 dl-show -j 0 a.ckpt
	run -2 --separate-stderr dl-show --tape
	expect_stderr_line '^dl-show: --tape is of one run directory, not 0$'
	run -2 dl-show --tape a b
	run -2 dl-show --tape --ledger a
	run -2 dl-show --why --json a
	run -2 --separate-stderr dl-show - -
	expect_stderr_line 'standard input can be read only once$'
}

@test "directories, dead FIFOs and strange names are told apart" {
	mkdir dir
	run -1 --separate-stderr dl-show dir
	expect_stderr_line '^dl-show: dir: not a run directory, it has no manifest'
	printf 'text' >$'new\nline'
	run -1 --separate-stderr dl-show $'new\nline'
	expect_stderr_line '^dl-show: new\\nline: not a dl file$'
}

@test "output that cannot be written is status 1, a closed pipe ends it quietly" {
	run -1 --separate-stderr sh -c 'dl-show a.ckpt >/dev/full'
	expect_stderr_line '^dl-show: standard output: No space left on device$'
	dl-init -r RUN -c tiny -P 2
	{ # more than is gathered before it is written
		echo tape 0 epoch epoch=1 after=0
		seq -f 'tape 1 call round=%.0f fragment=f000 version=0 invited=* steps=24' 200
	} | dl-scribe RUN
	run -1 --separate-stderr sh -c 'dl-show --tape RUN >/dev/full'
	expect_stderr_line '^dl-show: standard output: No space left on device$'
	run --separate-stderr bash -c 'dl-show a.ckpt a.ckpt a.ckpt | head -n 1; exit "${PIPESTATUS[1]}"'
	expect_no_stderr
}

@test "a header cannot move the cursor of a terminal" {
	dl-forge checkpoint "name=$(printf 'a\342\200\256b\302\233c')" a:1:1 >evil.ckpt
	run -0 --separate-stderr dl-show evil.ckpt
	expect_stdout_like '  name +a\\xe2'
	[[ $output != *$'\342\200\256'* && $output != *$'\302\233'* ]]
}

# ---- run directories: what a syncer and two learners would have left

a_run() {
	dl-init -r RUN -c tiny -P 2
	dl-scribe RUN <<-'END'
		tape 0 epoch epoch=1 after=0 syncer=abc
		tape 0.5 join learner=a key=x incarnation=1
		tape 1 call round=1 fragment=f000 version=0 invited=* steps=24
		tape 2 answer round=1 fragment=f000 learner=a id=IDa incarnation=1 steps=5 tokens=500 trained=500 step=5 loss=2.5
		tape 3 merge round=1 fragment=f000 version=1 base=IDb rule=rda outer_lr=0.7 step=5 answers=a:IDa:1:0.25
		tape 3.25 publish round=1 fragment=f000 version=1 id=IDc content=IDd outer=IDe
		head running
		tape 4 refuse round=1 fragment=f000 learner=b id=IDz verdict=late tokens=70 why=late
		beat a 700 500 50 1
		beat b 70 70 0 1
	END
}

@test "--tape prints the tape as aligned text, beyond what the head knows" {
	a_run
	run -0 --separate-stderr dl-show --tape RUN
	expect_no_stderr
	[ "${#lines[@]}" -eq 7 ]
	[ "${lines[0]}" = '     1      0.000  epoch      epoch=1 after=0 syncer=abc' ]
	[ "${lines[4]}" = '     5      3.000  merge      round=1 fragment=f000 version=1 base=0000000000000000 '"$(:
		)"'rule=rda outer_lr=0.7 step=5 answers=a:0000000000000000:1:0.25' ]
	run -0 --separate-stderr dl-show -v --verify RUN
	expect_stdout ""
	expect_stderr_line '^dl-show: RUN: tape intact, 7 lines$'
}

@test "--tape --json is one object a line, with whole identities" {
	command -v python3 >/dev/null || skip "no python3"
	a_run
	dl-show --tape --json RUN >out
	run -0 python3 - out <<-'END'
		import json, sys
		lines = [json.loads(x) for x in open(sys.argv[1])]
		assert [x["number"] for x in lines] == [1, 2, 3, 4, 5, 6, 7]
		assert lines[3] == {"number": 4, "epoch": 1, "seconds": 2, "kind": "answer", "round": 1,
			"fragment": "f000", "learner": "a", "id": "0" * 62 + "61", "incarnation": 1, "steps": 5,
			"tokens": 500, "trained": 500, "step": 5, "loss": 2.5}, lines[3]
		assert lines[4]["answers"] == [{"learner": "a", "id": "0" * 62 + "61", "share": 1, "norm": 0.25}]
	END
}

@test "a tape that was altered or cut is status 3, and printed up to there" {
	a_run
	cp -r RUN OTHER
	sed -i '4s/tokens=500/tokens=501/' OTHER/syncer/tape.1
	run -3 --separate-stderr dl-show --tape OTHER
	[ "${#lines[@]}" -eq 3 ]
	expect_stderr_line '^dl-show: OTHER: syncer/tape\.1: line 4: hash does not match'
	run -3 dl-show --ledger OTHER
	run -3 dl-show --verify OTHER
	# all of its hashes are right, but the head knows more
	sed '6,$d' RUN/syncer/tape.1 >cut
	cp cut OTHER/syncer/tape.1
	run -3 --separate-stderr dl-show --tape OTHER
	expect_stderr_line '^dl-show: OTHER: syncer/tape\.1: ends with line 5, but the head knows 6: the tape was cut$'
	# another tape of the same run, also whole
	mkdir empty && mv OTHER/syncer/tape.1 empty
	sed 's/^tape 2 .*/tape 2 call round=9/' <<-'END' | sed 's/trained=500/trained=600/' >script
		tape 0 epoch epoch=1 after=0 syncer=abc
		tape 1 join learner=a key=x
		tape 2 x
		tape 3 x
		tape 4 x
		tape 5 x
	END
	sed -i 's/ x$/ lost/' script
	mv OTHER/head head
	dl-scribe OTHER <script
	run -0 --separate-stderr dl-show --tape OTHER
	expect_stderr_line 'there is no head: nobody has sealed this tape$'
	mv head OTHER/head
	run -3 --separate-stderr dl-show --tape OTHER
	expect_stderr_line '^dl-show: OTHER: syncer/tape\.1: line 6: is not the line that the head names$'
}

@test "a line that is just being written is no fault" {
	a_run
	printf '8 4.5 cal' >>RUN/syncer/tape.1
	run -0 --separate-stderr dl-show --tape RUN
	expect_no_stderr
	[ "${#lines[@]}" -eq 7 ]
	run -0 --separate-stderr dl-show -v --tape RUN
	expect_stderr_like 'the last line of the tape is cut short, or is being written'
}

@test "--ledger says what became of each learner's tokens" {
	a_run
	run -0 --separate-stderr dl-show --ledger RUN
	expect_no_stderr
	[ "${#lines[@]}" -eq 4 ]
	[[ ${lines[0]} =~ ^\ +learner\ +trained\ +merged\ +refused\ +open\ +lost\ +under-way\ +answers ]]
	[[ ${lines[1]} =~ ^\ +a\ +700\ +[0-9]+\ +0\ +[0-9]+\ +50\ +150\ +1\ +1\ +0\ +0\ +yes$ ]]
	[[ ${lines[2]} =~ ^\ +b\ +70\ +0\ +[0-9]+\ +[0-9]+\ +0\ +0\ +1\ +0\ +1\ +0\ +yes$ ]]
	[[ ${lines[3]} =~ ^\ +total\ +770\  ]]
	run -0 --separate-stderr dl-show --ledger --json RUN
	expect_stdout_like '^\{"learner":"a","trained":700,.*"lost":50,"under_way":150,.*"balanced":true\}'
	expect_stdout_like '"learner":null,"trained":770,'
}

@test "books that do not balance are status 1, and why" {
	a_run
	dl-init -r TWO -c tiny -P 2
	dl-scribe TWO <<-'END'
		tape 0 epoch epoch=1 after=0
		tape 2 answer round=1 fragment=f000 learner=a id=IDa incarnation=1 steps=5 tokens=500 trained=500 step=5 loss=2.5
		tape 2 answer round=2 fragment=f000 learner=a id=IDb incarnation=1 steps=5 tokens=500 trained=900 step=5 loss=2.5
		head done
		beat a 1000 1000 0 2
	END
	run -1 --separate-stderr dl-show --ledger TWO
	expect_stdout_like ' no$'
	expect_stderr_line "^dl-show: TWO: books of 'a' do not balance: f000: answers to rounds 1 and 2 have tokens in common$"
	run -1 --separate-stderr dl-show --ledger --json TWO
	expect_stdout_like '"balanced":false,"why":"f000: answers'
}

@test "a run directory is shown in short, also one that may only be read" {
	a_run
	dl-key gen -o eve
	chmod -R a-w RUN
	run -0 --separate-stderr dl-show RUN
	expect_no_stderr
	expect_stdout_like '^RUN'
	expect_stdout_like $'\n  run +[0-9a-f]{32}\n'
	expect_stdout_like $'\n  phase +running\n'
	expect_stdout_like $'\n  f001 +[0-9]+ +[0-9]+ +0 +0 +0 '
	expect_stdout_like $'\n +9 +f000 +0 +all\n'
	expect_stdout_like $'\n  a +running +1 +0 +700 '
	run -0 --separate-stderr dl-show RUN RUN/head RUN/manifest RUN/learner/a/beat RUN/global/f001/0.frag
	expect_no_stderr
	expect_stdout_like $'\n  kind +fragment\n'
	run -0 --separate-stderr dl-show --json RUN
	expect_stdout_like '^\{"directory":"RUN",.*"learners":\[\{"learner":"a",.*"members":\[\]\}$'
	chmod -R u+w RUN
	new_home
	run -3 --separate-stderr dl-show RUN
	expect_stdout ""
	expect_stderr_like '^dl-show: RUN: manifest: signed by '
}

@test "a run that has not begun has an empty tape and books" {
	dl-init -r RUN -c tiny -P 2
	run -0 --separate-stderr dl-show --tape RUN
	expect_stdout ""
	expect_no_stderr
	run -0 --separate-stderr dl-show --ledger RUN
	expect_stdout_like ' total +0 '
	run -0 --separate-stderr dl-show RUN
	expect_no_stderr
	run -0 --separate-stderr dl-show --why RUN
	expect_stdout_like 'no syncer has begun'
}

@test "what cannot be read in a run is said, and the rest is shown" {
	a_run
	head -c 100 RUN/learner/b/beat >cut && cp cut RUN/learner/b/beat
	mkfifo RUN/learner/fifo
	ln -s a RUN/learner/link
	mkdir "RUN/learner/odd name"
	run -0 --separate-stderr dl-show RUN
	expect_stdout_like $'\n  a +running '
	expect_stderr_like '^dl-show: learner/b/beat: '
	run -1 --separate-stderr dl-show --ledger RUN
	expect_stderr_like "books of 'b' do not balance: there is no beat of it that counts"
}

@test "a tape is what dl-tape(5) says, for a second implementation" {
	command -v python3 >/dev/null || skip "no python3"
	a_run
	run -0 python3 - RUN/syncer/tape.1 "$(dl-show --json RUN | sed 's/.*"run":"\([0-9a-f]*\)".*/\1/')" <<-'END'
		import hashlib, re, sys
		def digest(*parts):
		    return hashlib.blake2b(b"".join(parts), digest_size=32).digest()
		chain = digest(b"dl-tape-1", sys.argv[2].encode())
		for number, line in enumerate(open(sys.argv[1], "rb"), 1):
		    assert re.fullmatch(rb"[0-9]+ [0-9.]+ [a-z]+( [a-z0-9_]+=[!-~]*)* [0-9a-f]{32}\n", line), line
		    text, hash = line[:-1].rsplit(b" ", 1)
		    chain = digest(chain, text)
		    assert chain.hex()[:32].encode() == hash
		    assert int(text.split()[0]) == number
		assert number == 7
	END
}
