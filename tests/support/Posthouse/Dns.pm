# Dns.pm - a name server of a few records, on loopback
#
#   my $dns = Posthouse::Dns->start('example.test MX 10 mail.example.test', 'example.test TXT v=spf1 mx -all');
#   $server->set('dns.servers', $dns->address);     # "127.0.0.1@PORT"
#
# Names that have no record at all do not exist; "fails.example.test" is never answered. A process of its own; it
# ends with the test.
package Posthouse::Dns;
use strict;
use warnings;
use IO::Socket::INET;
use POSIX ();
use Socket qw(inet_aton inet_pton AF_INET6);

my %number = (A => 1, PTR => 12, MX => 15, TXT => 16, AAAA => 28, SRV => 33);

sub start {
    my ($class, @records) = @_;
    my $socket = IO::Socket::INET->new(Proto => 'udp', LocalAddr => '127.0.0.1', LocalPort => 0) or die "udp: $@";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        $SIG{$_} = 'DEFAULT' for qw(INT TERM);
        _serve($socket, @records);
        POSIX::_exit(0);
    }
    return bless { pid => $pid, owner => $$, port => $socket->sockport }, $class;
}

sub address { "127.0.0.1\@$_[0]{port}" }

sub stop {
    my ($self) = @_;
    return unless $self->{pid} && $self->{owner} == $$;
    kill TERM => $self->{pid};
    local ($?, $!);
    waitpid $self->{pid}, 0;
    $self->{pid} = undef;
}

sub DESTROY { $_[0]->stop }

sub _name { join('', map { chr(length) . $_ } split /\./, $_[0]) . "\0" }

sub _data {
    my ($type, $text) = @_;
    return inet_aton($text) if $type eq 'A';
    return inet_pton(AF_INET6, $text) if $type eq 'AAAA';
    return _name($text) if $type eq 'PTR';
    return join '', map { chr(length) . $_ } unpack '(a255)*', $text if $type eq 'TXT';
    my @word = split ' ', $text;
    return pack('n', $word[0]) . _name($word[1]) if $type eq 'MX';
    return pack('nnn', @word[0 .. 2]) . _name($word[3]);
}

sub _serve {
    my ($socket, @records) = @_;
    my @rows = map { [split ' ', $_, 3] } @records;
    while (defined $socket->recv(my $question, 4096)) {
        my ($id, $flags, $n) = unpack 'nnn', $question;
        my ($at, @labels) = (12);
        while (my $length = ord substr $question, $at, 1) {
            push @labels, lc substr $question, $at + 1, $length;
            $at += 1 + $length;
        }
        my $name = join '.', @labels;
        my ($type) = unpack 'n', substr $question, $at + 1, 2;
        next if $name eq 'fails.example.test';
        my @there = grep { lc $_->[0] eq $name || $_->[0] =~ /\.\Q$name\E$/i } @rows;
        my @found = grep { lc $_->[0] eq $name && $number{ $_->[1] } == $type } @rows;
        my $answer = pack('nnnnnn', $id, 0x8580 | (@there ? 0 : 3), 1, scalar @found, 0, 0) . substr $question, 12, $at + 5 - 12;
        for (@found) {
            my $data = _data($_->[1], $_->[2]);
            $answer .= pack('nnnNn', 0xc00c, $type, 1, 60, length $data) . $data;
        }
        $socket->send($answer);
    }
}

1;
