# make install and make uninstall, with the programs that DL_BIN names.

load helper

install_into() {
	env -u MAKEFLAGS -u MAKELEVEL make -s -C "$repo" BINDIR="$DL_BIN" BUILD="${DL_TOOLS%/tools}" DESTDIR="$PWD/root" PREFIX=/opt/dl \
		"$1" >/dev/null
}

@test "make install puts programs and manual pages under DESTDIR and PREFIX, uninstall removes them" {
	install_into install
	for page in "$repo"/man/*.[157]; do
		expect_same "$page" "root/opt/dl/share/man/man${page##*.}/${page##*/}"
	done
	for source in "$repo"/bin/*.c; do
		name=$(basename "$source" .c)
		[ -x "root/opt/dl/bin/$name" ]
	done
	run -0 --separate-stderr root/opt/dl/bin/dl-key --version
	expect_stdout_like '^dl-key, dl tools '
	install_into uninstall
	[ -z "$(find root ! -type d)" ]
}
