# DBD::Pg as programs use it: a line `name<TAB>answer` for each check, an error as its SQLSTATE.
use strict;
use warnings;
use DBI;
use DBD::Pg qw(:pg_types :async);

sub text { my ($v) = @_; return ref $v eq 'ARRAY' ? '[' . join(', ', map { text($_) } @$v) . ']' : ref $v eq 'HASH' ? '{' . join(', ', map { "$_=" . text($v->{$_}) } sort keys %$v) . '}' : defined $v ? $v : 'undef' }

sub check {
    my ($name, $use, %options) = @_;
    my $db = DBI->connect('dbi:Pg:', undef, undef, { RaiseError => 1, PrintError => 0, PrintWarn => 0, AutoCommit => 1, %options });
    my $answer = eval { text($use->($db)) };
    $answer = 'SQLSTATE ' . ($db->state || $@) unless defined $answer;
    $answer =~ s/\n/\\n/g;
    print "$name\t$answer\n";
    $db->disconnect;
}

sub info { my ($statement, @columns) = @_; my @rows; while (my $row = $statement->fetchrow_hashref) { push @rows, [ map { $row->{$_} } @columns ] } return \@rows }

check('setup', sub { my $d = shift; $d->do($_) for 'DROP TABLE IF EXISTS pl_rows', 'CREATE TABLE pl_rows (id INT PRIMARY KEY, name VARCHAR(20) NOT NULL DEFAULT \'x\', amount NUMERIC(10,2), ok BOOLEAN, d DATE, raw BYTEA, ia INT[], ta TEXT[])', q(INSERT INTO pl_rows VALUES (1, 'one', 1.5, true, '2024-01-02', '\x0102', '{1,2}', '{a,NULL}'), (2, 'two', NULL, false, NULL, NULL, NULL, NULL)); 'done' });
check('all', sub { shift->selectall_arrayref('SELECT * FROM pl_rows ORDER BY id') });
check('parameters', sub { shift->selectall_arrayref('SELECT id FROM pl_rows WHERE id = ? AND name = ? AND amount = ? AND ok = ? AND d = ?', undef, 1, 'one', '1.5', 1, '2024-01-02') });
check('dollar parameters', sub { shift->selectall_arrayref('SELECT id FROM pl_rows WHERE id = $1 OR id = $1 + 1 ORDER BY id', undef, 1) });
check('named parameters', sub { my $s = shift->prepare('SELECT id FROM pl_rows WHERE id = :id'); $s->bind_param(':id', 2); $s->execute; $s->fetchall_arrayref });
check('bytes', sub { my $s = shift->prepare('SELECT id FROM pl_rows WHERE raw = ?'); $s->bind_param(1, "\x01\x02", { pg_type => PG_BYTEA }); $s->execute; $s->fetchall_arrayref });
check('array', sub { shift->selectall_arrayref('SELECT id FROM pl_rows WHERE id = ANY (?) ORDER BY id', undef, [ 1, 2 ]) });
check('server prepare off', sub { my $d = shift; $d->{pg_server_prepare} = 0; $d->selectall_arrayref('SELECT id FROM pl_rows WHERE id = ? AND name = ?', undef, 1, "one") });
check('prepare now', sub { my $s = shift->prepare('SELECT id, amount FROM pl_rows WHERE id = ?', { pg_prepare_now => 1 }); $s->execute(1); [ $s->{NAME}, $s->{TYPE}, $s->{PRECISION}, $s->{SCALE}, $s->fetchall_arrayref ] });
check('types', sub { my $s = shift->prepare('SELECT id, name, amount, ok, d, raw, ia, 1 AS one FROM pl_rows'); $s->execute; [ $s->{TYPE}, $s->{pg_type} ] });
check('table info', sub { info(shift->table_info('', 'public', 'pl_rows', ''), 'TABLE_SCHEM', 'TABLE_NAME', 'TABLE_TYPE', 'REMARKS') });
check('column info', sub { info(shift->column_info('', 'public', 'pl_rows', '%'), qw(COLUMN_NAME DATA_TYPE TYPE_NAME COLUMN_SIZE DECIMAL_DIGITS NULLABLE COLUMN_DEF ORDINAL_POSITION pg_type)) });
check('primary key info', sub { info(shift->primary_key_info('', 'public', 'pl_rows'), qw(COLUMN_NAME KEY_SEQ PK_NAME)) });
check('primary key', sub { [ shift->primary_key('', 'public', 'pl_rows') ] });
check('foreign key info', sub { my $s = shift->foreign_key_info('', 'public', 'pl_rows', '', '', ''); $s ? info($s, 'FK_NAME') : 'none' });
check('statistics info', sub { info(shift->statistics_info(undef, 'public', 'pl_rows', 0, 0), qw(TABLE_NAME NON_UNIQUE INDEX_NAME ORDINAL_POSITION COLUMN_NAME)) });
check('tables', sub { [ grep { /pl_rows/ } shift->tables('', 'public', '%', 'TABLE') ] });
check('type info', sub { [ map { $_->{TYPE_NAME} } shift->type_info(DBI::SQL_INTEGER()) ] });
check('data sources', sub { scalar grep { /dbname=nyala/ } shift->data_sources });
check('ping and state', sub { my $d = shift; [ $d->ping, $d->state, $d->pg_ping ] });
check('error', sub { shift->do('SELECT nope') });
check('error field', sub { my $d = shift; eval { $d->do('SELECT nope') }; [ $d->pg_error_field('sqlstate'), $d->pg_error_field('statement_position') ] });
check('counts', sub { my $d = shift; [ map { $d->do($_) } q(INSERT INTO pl_rows (id) VALUES (3)), q(UPDATE pl_rows SET name = 'c' WHERE id = 3), q(DELETE FROM pl_rows WHERE id = 3) ] });
check('execute array', sub { my $d = shift; my $s = $d->prepare('INSERT INTO pl_rows (id, name) VALUES (?, ?)'); my $n = $s->execute_array({}, [ 5, 6 ], [ 'a', 'b' ]); $d->do('DELETE FROM pl_rows WHERE id > 4'); $n });
check('returning', sub { my $d = shift; [ $d->selectrow_array(q(INSERT INTO pl_rows (id) VALUES (7) RETURNING id, name)), $d->selectrow_array('DELETE FROM pl_rows WHERE id = 7 RETURNING id') ] });
check('copy', sub { my $d = shift; $d->do('COPY pl_rows (id, name) FROM STDIN'); $d->pg_putcopydata("8\tx\n"); $d->pg_putcopyend; $d->do('COPY (SELECT id, name FROM pl_rows ORDER BY id) TO STDOUT'); my ($all, $line) = (''); while ($d->pg_getcopydata(\$line) >= 0) { $all .= $line } $d->do('DELETE FROM pl_rows WHERE id = 8'); $all });
check('savepoints', sub { my $d = shift; $d->pg_savepoint('s'); eval { $d->do('SELECT 1/0') }; $d->pg_rollback_to('s'); $d->pg_release('s'); my $r = $d->selectrow_arrayref('SELECT true'); $d->commit; $r }, AutoCommit => 0);
check('asynchronous', sub { my $d = shift; $d->do('SELECT count(*) FROM pl_rows', { pg_async => PG_ASYNC }); $d->pg_result });
check('cancel', sub { my $d = shift; $d->do('SELECT count(*) FROM generate_series(1, 1000000000) AS a(n) CROSS JOIN generate_series(1, 100000) AS b(m) WHERE n % 7 = 8', { pg_async => PG_ASYNC }); select undef, undef, undef, 0.3; [ $d->pg_cancel, $d->selectrow_arrayref('SELECT true') ] });
check('notifies', sub { my $d = shift; $d->do('LISTEN pl_channel'); $d->do(q(NOTIFY pl_channel, 'hello')); my $n = $d->pg_notifies; $n ? [ $n->[0], $n->[2] ] : 'none' });
check('last insert id', sub { shift->last_insert_id('', 'public', 'pl_rows', '') });
check('quote', sub { my $d = shift; [ $d->quote("it's"), $d->quote_identifier('a b'), $d->{pg_server_version} >= 150000 ] });
check('drop', sub { shift->do('DROP TABLE pl_rows') });
