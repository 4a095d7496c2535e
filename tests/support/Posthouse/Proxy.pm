# Proxy.pm - a wire between a client and a server that can be cut, slowed and garbled
#
#   my $proxy = Posthouse::Proxy->start(to => "127.0.0.1:$port");        # $proxy->port
#   my $proxy = Posthouse::Proxy->start(to => '/folder/.s.PGSQL.5432', at => '/other/.s.PGSQL.5432');
#   $proxy->cut;                # ends all connections and takes no new one
#   $proxy->mend;               # takes connections again, passes everything unchanged
#   $proxy->delay(0.2);         # each piece waits so long, both ways
#   $proxy->hold;               # passes nothing, ends nothing: a network that swallows
#   $proxy->garble(100);        # flips one bit in one of so many bytes, on the way to the client
#   $proxy->cut_after(1000);    # cuts each connection after so many bytes to the server
#
# The wire is a process of its own, so a blocking test does not stop it; it ends with the test.
package Posthouse::Proxy;
use strict;
use warnings;
use Carp qw(croak);
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use POSIX ();
use Time::HiRes qw(time);

sub start {
    my ($class, %option) = @_;
    my $listener = $option{at}
        ? IO::Socket::UNIX->new(Local => $option{at}, Listen => 128)
        : IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 128);
    croak "listen: $!" unless $listener;
    chmod 0777, $option{at} if $option{at};
    pipe my $orders_in, my $orders_out or croak "pipe: $!";
    pipe my $done_in, my $done_out or croak "pipe: $!";
    my $pid = fork // croak "fork: $!";
    if ($pid == 0) {
        close $orders_out;
        close $done_in;
        $SIG{$_} = 'DEFAULT' for qw(INT TERM);
        $SIG{PIPE} = 'IGNORE';
        eval { _serve($listener, $option{to}, $orders_in, $done_out) };
        print STDERR "proxy: $@" if $@;
        POSIX::_exit($@ ? 1 : 0);
    }
    close $orders_in;
    close $done_out;
    $orders_out->autoflush(1);
    return bless {
        pid => $pid,
        owner => $$,
        port => $option{at} ? undef : $listener->sockport,
        orders => $orders_out,
        done => $done_in,
    }, $class;
}

sub port { $_[0]{port} }

# Gives the wire an order and waits until it is carried out.
sub _order {
    my ($self, $order) = @_;
    print { $self->{orders} } "$order\n";
    defined readline $self->{done} or croak 'the proxy has ended';
    return $self;
}

sub cut { $_[0]->_order('cut') }
sub mend { $_[0]->_order('mend') }
sub hold { $_[0]->_order('hold') }
sub delay { $_[0]->_order("delay $_[1]") }
sub garble { $_[0]->_order("garble $_[1]") }
sub cut_after { $_[0]->_order("cut_after $_[1]") }

sub stop {
    my ($self) = @_;
    return unless $self->{pid} && $self->{owner} == $$;
    kill TERM => $self->{pid};
    local ($?, $!);
    waitpid $self->{pid}, 0;
    $self->{pid} = undef;
}

sub DESTROY { $_[0]->stop }

# -- the wire's process -----------------------------------------------------------------------------

sub _connect {
    my ($to) = @_;
    return IO::Socket::UNIX->new(Peer => $to) if $to =~ m{^/};
    return IO::Socket::INET->new(PeerAddr => $to);
}

sub _serve {
    my ($listener, $to, $orders, $done) = @_;
    $done->autoflush(1);
    my %mode = (cut => 0, hold => 0, delay => 0, garble => 0, cut_after => 0);
    my %ends;    # descriptor => { socket, other, to_server, bytes, queue => [[when, bytes]...], ended }
    my $pending = '';

    my $drop = sub {
        my ($end) = @_;
        for my $one ($end, $end->{other}) {
            delete $ends{ fileno $one->{socket} } if defined fileno $one->{socket};
            close $one->{socket};
        }
    };
    my $obey = sub {
        my ($word, $value) = split ' ', $_[0];
        if ($word eq 'mend') {
            %mode = (cut => 0, hold => 0, delay => 0, garble => 0, cut_after => 0);
        } else {
            $mode{$word} = $value // 1;
        }
        if ($mode{cut}) {
            $drop->($_) for grep { $_->{to_server} } values %ends;
        }
    };

    while (1) {
        my $now = time;
        my $next = 60;
        for my $end (my @now = values %ends) {
            next if $mode{hold} || !@{ $end->{queue} };
            my $left = $end->{queue}[0][0] - $now;
            $next = $left < 0 ? 0 : $left if $left < $next;
        }
        my $select = IO::Select->new($orders, $listener,
            $mode{hold} ? () : map { $_->{socket} } grep { !$_->{ended} && @{ $_->{queue} } < 64 } values %ends);
        for my $ready ($select->can_read($next)) {
            if ($ready == $orders) {
                return unless sysread $orders, $pending, 4096, length $pending;
                while ($pending =~ s/^([^\n]*)\n//) {
                    $obey->($1);
                    print $done "done\n";
                }
                next;
            }
            if ($ready == $listener) {
                my $client = $listener->accept or next;
                my $server = $mode{cut} ? undef : _connect($to);
                close $client and next unless $server;
                my $a = { socket => $client, to_server => 1, bytes => 0, queue => [] };
                my $b = { socket => $server, to_server => 0, bytes => 0, queue => [] };
                @$a{other} = $b;
                @$b{other} = $a;
                $ends{ fileno $client } = $a;
                $ends{ fileno $server } = $b;
                next;
            }
            my $end = defined fileno $ready ? $ends{ fileno $ready } : undef;
            next unless $end;
            my $n = sysread $ready, my $bytes, 65536;
            if (!$n) {
                $end->{ended} = 1;
                push @{ $end->{queue} }, [time + $mode{delay}, undef];
                next;
            }
            $end->{bytes} += $n;
            if ($mode{garble} && !$end->{to_server}) {
                for (my $at = int rand $mode{garble}; $at < $n; $at += 1 + int rand 2 * $mode{garble}) {
                    substr($bytes, $at, 1) ^= chr(1 << int rand 8);
                }
            }
            if ($mode{cut_after} && $end->{to_server} && $end->{bytes} > $mode{cut_after}) {
                $drop->($end);
                next;
            }
            push @{ $end->{queue} }, [time + $mode{delay}, $bytes];
        }
        next if $mode{hold};
        for my $end (my @now = values %ends) {
            while (@{ $end->{queue} } && $end->{queue}[0][0] <= time) {
                my $bytes = (shift @{ $end->{queue} })->[1];
                if (!defined $bytes) {
                    shutdown $end->{other}{socket}, 1 if defined fileno $end->{other}{socket};
                    $drop->($end) if $end->{other}{ended} && !@{ $end->{other}{queue} };
                    last;
                }
                my $at = 0;
                while ($at < length $bytes) {
                    my $n = syswrite $end->{other}{socket}, $bytes, length($bytes) - $at, $at;
                    last unless $n;
                    $at += $n;
                }
                next if $at == length $bytes;
                $drop->($end);
                last;
            }
        }
    }
}

1;
