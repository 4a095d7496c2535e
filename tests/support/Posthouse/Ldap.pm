# Ldap.pm - a client of a directory that says what it wants byte by byte: for what OpenLDAP's tools do not do
#
#   my $ldap = Posthouse::Client::Ldap->connect(port => $server->port('ldaps'), tls => 1, ca_file => $server->ca_file);
#   is($ldap->bind($dn, $password), 0, 'the result code of a bind');
#   my ($code, @entries) = $ldap->search($base, 2, present('objectClass'));
package Posthouse::Client::Ldap;
use strict;
use warnings;
use parent -norequire, 'Posthouse::Client';
use Carp qw(croak);
use Exporter qw(import);
use Posthouse::Client;

our @EXPORT_OK = qw(ber integer text present equal message search_op);

# -- BER --------------------------------------------------------------------------------------------

sub ber {
    my ($tag, @contents) = @_;
    my $contents = join '', @contents;
    my $length = length $contents;
    return pack('CC', $tag, $length) . $contents if $length < 128;
    return pack('CCN', $tag, 0x84, $length) . $contents;
}

sub integer {
    my ($number, $tag) = @_;
    my $bytes = pack 'N', $number & 0xffffffff;
    $bytes = substr $bytes, 1
        while length $bytes > 1 && ($bytes =~ /^\x00[\x00-\x7f]/s || $bytes =~ /^\xff[\x80-\xff]/s);
    return ber($tag // 0x02, $bytes);
}

sub text { ber($_[1] // 0x04, $_[0]) }
sub present { ber(0x87, $_[0]) }
sub equal { ber(0xa3, text($_[0]), text($_[1])) }
sub message { my ($id, $op, $controls) = @_; ber(0x30, integer($id), $op, $controls // ()) }

# A search's operation; `limit` is the size limit.
sub search_op {
    my ($base, $scope, $filter, $limit, @attributes) = @_;
    return ber(0x63, text($base), integer($scope, 0x0a), integer(0, 0x0a), integer($limit // 0), integer(0), ber(0x01, "\0"),
        $filter, ber(0x30, map { text($_) } @attributes));
}

# The first element of the bytes: tag, contents, and what follows it.
sub element {
    my ($bytes) = @_;
    my ($tag, $length) = unpack 'CC', $bytes;
    my $head = 2;
    if ($length >= 128) {
        my $n = $length & 127;
        $length = 0;
        $length = $length << 8 | $_ for unpack 'C*', substr $bytes, 2, $n;
        $head += $n;
    }
    return ($tag, substr($bytes, $head, $length), substr($bytes, $head + $length));
}

# -- the exchange -----------------------------------------------------------------------------------

# The next message: { id, tag, op, code, controls }; undef when the connection has ended.
sub answer {
    my ($self) = @_;
    my $head = eval { $self->bytes(2) } // return;
    my $length = unpack 'xC', $head;
    if ($length >= 128) {
        my $more = $self->bytes($length & 127);
        $length = 0;
        $length = $length << 8 | $_ for unpack 'C*', $more;
    }
    my (undef, $id, $rest) = element($self->bytes($length));
    my ($tag, $op, $controls) = element($rest);
    my %answer = (id => unpack('N', substr "\0\0\0$id", -4), tag => $tag, op => $op, controls => $controls);
    $answer{code} = unpack 'C', (element($op))[1] unless $tag == 0x64 || $tag == 0x73;
    return \%answer;
}

# Sends an operation, and gives the message id.
sub request {
    my ($self, $op, $controls) = @_;
    $self->send(message(++$self->{id}, $op, $controls));
    return $self->{id};
}

sub bind {
    my ($self, $dn, $password) = @_;
    $self->request(ber(0x60, integer(3), text($dn), ber(0x80, $password)));
    my $answer = $self->answer // croak 'the connection ended within a bind';
    return $answer->{code};
}

# The result code and the entries' names.
sub search {
    my ($self, @what) = @_;
    my $id = $self->request(search_op(@what));
    my @names;
    while (my $answer = $self->answer) {
        croak "an answer to $answer->{id} instead of $id" if $answer->{id} != $id;
        return ($answer->{code}, @names) if $answer->{tag} == 0x65;
        push @names, (element($answer->{op}))[1];
    }
    croak 'the connection ended within a search';
}

1;
