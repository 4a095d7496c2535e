# Client.pm - connections that speak line by line, with a deadline on every wait
#
# A wait that ends by its deadline, and a connection that ends early, die with a message that says what
# was waited for. Lines are given without their line end.
package Posthouse::Client;
use strict;
use warnings;
use Carp qw(croak);
use Errno qw(EAGAIN EINTR EINPROGRESS);
use IO::Select;
use IO::Socket::IP;
use IO::Socket::SSL;
use Socket qw(SOL_SOCKET SO_LINGER);
use Time::HiRes qw(time);

# connect(port => N, host => '127.0.0.1', tls => 0, ca_file => FILE, seconds => 20)
sub connect {
    my ($class, %option) = @_;
    my $self = bless {
        seconds => $option{seconds} // 20,
        ca_file => $option{ca_file},
        host => $option{host} // '127.0.0.1',
        buffer => '',
    }, $class;
    $self->{socket} = IO::Socket::IP->new(PeerHost => $self->{host}, PeerPort => $option{port},
        Timeout => $self->{seconds}) or croak "connect to port $option{port}: $@";
    $self->{socket}->blocking(0);
    $self->start_tls if $option{tls};
    $self->greeted unless $option{no_greeting};
    return $self;
}

# Reads the greeting; each protocol has its own.
sub greeted { }

# The TLS handshake, with the server's certificate verified by its authority.
sub start_tls {
    my ($self) = @_;
    $self->{socket}->blocking(1);
    my $socket = IO::Socket::SSL->start_SSL($self->{socket}, SSL_ca_file => $self->{ca_file},
        SSL_verify_mode => SSL_VERIFY_PEER, SSL_verifycn_name => 'localhost', SSL_verifycn_scheme => 'smtp',
        SSL_hostname => 'localhost', Timeout => $self->{seconds})
        or croak "TLS handshake: $SSL_ERROR";
    $self->{socket} = $socket;
    $self->{socket}->blocking(0);
    $self->{tls} = 1;
    return $self;
}

# Waits until the socket can be read or written; false after the deadline.
sub _wait {
    my ($self, $write, $end) = @_;
    my $select = IO::Select->new($self->{socket});
    my $left = $end - time;
    return 0 if $left <= 0;
    return 1 if $write ? $select->can_write($left) : $select->can_read($left);
    return time < $end;
}

# What a call that did nothing waits for: true for writing.
sub _wants_write {
    my ($self, $default) = @_;
    return $default unless $self->{tls};
    return $SSL_ERROR == SSL_WANT_WRITE ? 1 : $SSL_ERROR == SSL_WANT_READ ? 0 : $default;
}

sub _would_block {
    my ($self) = @_;
    return 1 if $! == EAGAIN || $! == EINTR;
    return $self->{tls} && ($SSL_ERROR == SSL_WANT_READ || $SSL_ERROR == SSL_WANT_WRITE);
}

# Sends bytes as they are.
sub send {
    my ($self, $bytes) = @_;
    my $end = time + $self->{seconds};
    local $SIG{PIPE} = 'IGNORE';
    my $done = 0;
    while ($done < length $bytes) {
        my $n = syswrite $self->{socket}, $bytes, length($bytes) - $done, $done;
        if (defined $n) {
            $done += $n;
            next;
        }
        croak "send: $!" unless $self->_would_block;
        $self->_wait($self->_wants_write(1), $end) or croak 'send: the peer does not read';
    }
    return $self;
}

sub send_line { $_[0]->send("$_[1]\r\n") }

# Reads more into the buffer: 1, 0 at the end of the connection; dies after the deadline.
sub _fill {
    my ($self, $end, $what) = @_;
    while (1) {
        my $n = sysread $self->{socket}, $self->{buffer}, 65536, length $self->{buffer};
        return $n ? 1 : 0 if defined $n;
        return 0 unless $self->_would_block;
        $self->_wait($self->_wants_write(0), $end)
            or croak "nothing came in $self->{seconds} s; waited for $what, have \"$self->{buffer}\"";
    }
}

# The next line, undef at the end of the connection.
sub line {
    my ($self, $seconds) = @_;
    my $end = time + ($seconds // $self->{seconds});
    my $at;
    while (($at = index $self->{buffer}, "\n") < 0) {
        return unless $self->_fill($end, 'a line');
    }
    my $line = substr $self->{buffer}, 0, $at + 1, '';
    $line =~ s/\r?\n\z//;
    return $line;
}

# Exactly so many bytes.
sub bytes {
    my ($self, $length) = @_;
    my $end = time + $self->{seconds};
    while (length $self->{buffer} < $length) {
        $self->_fill($end, "$length bytes") or croak "the connection ended within $length bytes";
    }
    return substr $self->{buffer}, 0, $length, '';
}

# Reads lines until one matches; gives that line.
sub expect {
    my ($self, $pattern, $seconds) = @_;
    my @seen;
    while (defined(my $line = $self->line($seconds))) {
        return $line if $line =~ $pattern;
        push @seen, $line;
    }
    croak "the connection ended before $pattern; came: " . join ' | ', @seen;
}

# True when the server ends the connection within the time; what came before is thrown away.
sub is_closed {
    my ($self, $seconds) = @_;
    my $end = time + ($seconds // $self->{seconds});
    $self->{buffer} = '';
    my $open = eval {
        $self->{buffer} = '' while $self->_fill($end, 'the end');
        1;
    };
    return $open ? 1 : 0;
}

sub close {
    my ($self) = @_;
    close $self->{socket} if $self->{socket};
    delete $self->{socket};
}

# Ends without a farewell, as a machine that went away: the peer gets a reset.
sub abort {
    my ($self) = @_;
    setsockopt $self->{socket}, SOL_SOCKET, SO_LINGER, pack 'ii', 1, 0;
    $self->{socket}->close($self->{tls} ? (SSL_no_shutdown => 1) : ());
    delete $self->{socket};
}

# -- SMTP and LMTP ----------------------------------------------------------------------------------
package Posthouse::Client::Smtp;
use parent -norequire, 'Posthouse::Client';
use Carp qw(croak);
use MIME::Base64 qw(encode_base64);

sub greeted { $_[0]{greeting} = $_[0]->reply }

# A whole reply, its lines joined by a newline.
sub reply {
    my ($self) = @_;
    my @lines;
    while (1) {
        my $line = $self->line // croak 'the connection ended instead of a reply';
        push @lines, $line;
        return join "\n", @lines unless $line =~ /^\d{3}-/;
    }
}

# Sends a command, gives its reply.
sub cmd {
    my ($self, $command) = @_;
    $self->send_line($command);
    return $self->reply;
}

sub starttls {
    my ($self) = @_;
    my $answer = $self->cmd('STARTTLS');
    croak "STARTTLS: $answer" unless $answer =~ /^220/;
    return $self->start_tls;
}

# AUTH PLAIN with the initial response; gives the reply.
sub login {
    my ($self, $login, $password) = @_;
    return $self->cmd('AUTH PLAIN ' . encode_base64("\0$login\0$password", ''));
}

# The data after 354: dots stuffed, the last line ended, the end mark sent. Gives the reply; for LMTP the
# first of as many as there are recipients.
sub data {
    my ($self, $message) = @_;
    my $answer = $self->cmd('DATA');
    return $answer unless $answer =~ /^354/;
    $message =~ s/\r?\n/\r\n/g;
    $message =~ s/^\./../mg;
    $message .= "\r\n" unless $message =~ /\r\n\z/;
    $self->send("$message.\r\n");
    return $self->reply;
}

# One whole transaction: the reply to the data, or the first that refuses.
sub mail {
    my ($self, $from, $to, $message) = @_;
    for my $command ("MAIL FROM:<$from>", map { "RCPT TO:<$_>" } ref $to ? @$to : $to) {
        my $answer = $self->cmd($command);
        return $answer unless $answer =~ /^250/;
    }
    return $self->data($message);
}

# -- IMAP -------------------------------------------------------------------------------------------
package Posthouse::Client::Imap;
use parent -norequire, 'Posthouse::Client';
use Carp qw(croak);

sub greeted { $_[0]{greeting} = $_[0]->response }

# One response: a line with the literals in it, byte for byte.
sub response {
    my ($self, $seconds) = @_;
    my $text = $self->line($seconds);
    return $text unless defined $text;
    while ($text =~ /\{(\d+)\}\z/) {
        $text .= "\r\n" . $self->bytes($1);
        $text .= $self->line($seconds) // croak 'the connection ended within a response';
    }
    return $text;
}

# Sends a command with a tag of its own; gives "OK ...", "NO ..." or "BAD ...". The untagged responses
# before it are in ->untagged.
sub cmd {
    my ($self, $command) = @_;
    my $tag = $self->begin($command);
    return $self->finish($tag);
}

# Sends a command without waiting; gives its tag. A part that is a reference is sent as a literal, after
# the server has asked for it.
sub begin {
    my ($self, @parts) = @_;
    my $tag = sprintf 'a%d', ++$self->{tags};
    my $text = "$tag ";
    $self->{untagged} = [];
    for my $part (@parts) {
        if (!ref $part) {
            $text .= $part;
            next;
        }
        $self->send("$text\{" . length($$part) . "}\r\n");
        my $answer = $self->response // croak 'the connection ended instead of "+"';
        while ($answer =~ /^\* /) {
            push @{ $self->{untagged} }, $answer;
            $answer = $self->response // croak 'the connection ended instead of "+"';
        }
        if ($answer !~ /^\+/) {
            $self->{early}{$tag} = $answer;
            return $tag;
        }
        $text = $$part;
    }
    $self->send("$text\r\n");
    return $tag;
}

# Waits for a command's end.
sub finish {
    my ($self, $tag) = @_;
    my $early = delete $self->{early}{$tag};
    return $early =~ s/^\Q$tag\E //r if defined $early;
    while (defined(my $text = $self->response)) {
        return $1 if $text =~ /\A\Q$tag\E (.*)\z/s;
        push @{ $self->{untagged} }, $text;
    }
    croak 'the connection ended instead of an answer';
}

# A command with literals: ->literal('APPEND INBOX ', \$message).
sub literal {
    my ($self, @parts) = @_;
    return $self->finish($self->begin(@parts));
}

# The untagged responses of the last command.
sub untagged { @{ $_[0]{untagged} // [] } }

sub starttls {
    my ($self) = @_;
    my $answer = $self->cmd('STARTTLS');
    croak "STARTTLS: $answer" unless $answer =~ /^OK/;
    return $self->start_tls;
}

# APPEND; gives the answer.
sub append {
    my ($self, $mailbox, $message, $flags) = @_;
    return $self->literal(qq(APPEND "$mailbox" ) . ($flags ? "($flags) " : ''), \$message);
}

1;
