# Work.pm - clients that know what they were promised
#
# Each worker is a process with an account or a name of its own, so that it alone changes what it looks at. It keeps a
# model of what the server has acknowledged, and writes down in its journal what it begins, what was acknowledged and
# what it finds. An operation whose answer never came may have happened or not, but never half: after each reconnect the
# worker looks at everything that is its own and compares. What does not fit is a line "fault ..." in the journal.
#
#   my $pid = Work::begin(kind => 'filer', number => 3, servers => [...], folder => DIR, seed => N);
#   ... the file DIR/stop ends all workers; each ends with a look at everything.
#   my %sum = Work::sum(DIR);      # how often what was acknowledged; faults => [TEXT...]
package Work;
use strict;
use warnings;
use IO::Socket::INET;
use POSIX ();
use Time::HiRes qw(sleep time);
use Posthouse::Ldap;

# How long a worker tries to reach a server that does not answer, at the end.
our $last_look_s = 90;

my %kind = (
    sender => \&sender,
    filer => \&filer,
    manager => \&manager,
    visitor => \&visitor,
    searcher => \&searcher,
);

sub kinds { return sort keys %kind }

# The accounts that a worker needs: made before the faults begin.
sub accounts {
    my (%option) = @_;
    return ("searched$option{number}") if $option{kind} eq 'searcher';
    return $option{kind} eq 'filer' ? ("filer$option{number}") : $option{kind} eq 'sender' ? ("target$option{number}") : ();
}

sub begin {
    my (%option) = @_;
    my $pid = fork // die "fork: $!";
    return $pid if $pid;
    my $self = bless { %option, name => "$option{kind}-$option{number}" }, 'Work';
    srand $option{seed} * 1000 + $option{number};
    $SIG{$_} = 'DEFAULT' for qw(INT TERM HUP);
    $SIG{PIPE} = 'IGNORE';
    open $self->{journal}, '>>', "$option{folder}/$self->{name}" or POSIX::_exit(1);
    $self->{journal}->autoflush(1);
    eval { $kind{ $option{kind} }->($self); 1 } or $self->fault("the worker died: $@");
    POSIX::_exit(0);
}

# -- the journal --------------------------------------------------------------------------------------

sub write_down {
    my ($self, @words) = @_;
    print { $self->{journal} } sprintf("%.3f ", time), join(' ', @words), "\n";
}

sub fault {
    my ($self, $text) = @_;
    $text =~ s/\s+/ /g;
    $self->write_down("fault $text");
}

sub is_over { -e "$_[0]{folder}/stop" }

sub sum {
    my ($folder) = @_;
    my %sum = (faults => []);
    for my $file (glob "$folder/*-*") {
        my ($name) = $file =~ m{([^/]+)$};
        my $looked = 0;
        for (split /\n/, Posthouse::slurp($file) // '') {
            my (undef, $word, $rest) = split ' ', $_, 3;
            push @{ $sum{faults} }, "$name: $rest" if $word eq 'fault';
            $sum{acknowledged}{ (split ' ', $rest)[0] }++ if $word eq 'acknowledged';
            $sum{unknown}++ if $word eq 'unknown';
            $sum{looks}++ if $word eq 'looked';
            $looked = 1 if $word eq 'looked' && ($rest // '') eq 'last';
        }
        push @{ $sum{faults} }, "$name: has not looked at the end" unless $looked;
    }
    return %sum;
}

# -- connections --------------------------------------------------------------------------------------

# One of the servers, another one after each failure.
sub server {
    my ($self) = @_;
    return $self->{servers}[ $self->{turn} // 0 ];
}

sub next_server {
    my ($self) = @_;
    $self->{turn} = (($self->{turn} // 0) + 1) % @{ $self->{servers} };
    delete $self->server->{ports};
    sleep 0.05 + rand 0.1;
}

# Calls what may die by a lost connection until it gives something true, or the end has come: undef.
sub until_done {
    my ($self, $call, $end) = @_;
    while (1) {
        my $result = eval { $call->() };
        return $result if $result;
        return if $end ? time > $end : $self->is_over;
        $self->next_server;
    }
}

sub message {
    my ($token, $length) = @_;
    my $body = "line of the body\n" x (1 + $length / 17);
    return "From: a\@example.org\nSubject: $token\n\n$body";
}

# -- sender: mail in by SMTP and LMTP; nothing acknowledged is lost, nothing is there more often than it was sent ------

sub sender {
    my ($self) = @_;
    my $account = (accounts(%$self))[0];
    my (%acknowledged, %attempts);
    my $number = 0;
    my $client;
    my $service = $self->{number} % 2 ? 'smtp' : 'lmtp';
    until ($self->is_over) {
        my $token = sprintf '%s-%d', $self->{name}, ++$number;
        while (!$self->is_over) {
            $client //= $self->until_done(sub {
                my $new = $self->server->smtp($service, seconds => 30);
                $new->cmd(($service eq 'lmtp' ? 'LHLO' : 'EHLO') . ' client.example.org');
                $new;
            }) // last;
            my $answer = eval {
                $client->cmd('RSET');
                my $reply = $client->cmd('MAIL FROM:<a@example.org>');
                $reply = $client->cmd("RCPT TO:<$account\@example.test>") if $reply =~ /^250/;
                if ($reply =~ /^250/) {
                    $attempts{$token}++;
                    $self->write_down("begun mail $token");
                    $reply = $client->data(message($token, rand() < 0.02 ? 300_000 : rand 3000));
                }
                $reply;
            };
            if (!defined $answer || $answer =~ /^421/) {
                $self->write_down("unknown mail $token") unless defined $answer;
                undef $client;
                $self->next_server;
                next;
            }
            if ($answer =~ /^250/) {
                $acknowledged{$token} = time;
                $self->write_down("acknowledged mail $token");
                last;
            }
            $self->fault("mail $token refused for good: $answer") if $answer =~ /^5/;
            sleep 0.05;
        }
    }
    # The last look: every token, how often.
    my %stored;
    my %uid;
    my $imap = $self->until_done(sub { $self->server->imap(login => $account, seconds => 60) }, time + $last_look_s)
        // return $self->fault('nobody answers at the end');
    for my $command ('SELECT INBOX', 'FETCH 1:* (UID BODY.PEEK[HEADER.FIELDS (SUBJECT)])') {
        my $answer = $imap->cmd($command);
        $self->fault("$command: $answer") unless $answer =~ /^OK/;
    }
    for ($imap->untagged) {
        $stored{$1}++ if /Subject: (\S+)/;
        $self->fault("UID $1 twice") if /UID (\d+)/ && $uid{$1}++;
    }
    for (sort keys %acknowledged) {
        $self->fault("lost: $_ was acknowledged at $acknowledged{$_} and is not there") unless $stored{$_};
    }
    for (sort keys %stored) {
        $self->fault("$_ is there $stored{$_} times, sent " . ($attempts{$_} // 0)) if $stored{$_} > ($attempts{$_} // 0);
    }
    $self->write_down('looked last');
}

# -- filer: APPEND, STORE, COPY, MOVE, EXPUNGE in an account of its own; the model says where each message is -----------

# model: {token}{folder} = flags; a token can be in several folders, once in each.
my @folders = qw(INBOX Archive Trash);
my @flags = ('\\Answered', '\\Flagged', '\\Seen', 'Marked');

sub filer {
    my ($self) = @_;
    @$self{qw(model size token_of)} = ({}, {}, {});
    my ($client, $number);
    until ($self->is_over) {
        if (!$client) {
            $client = $self->until_done(sub { $self->filer_client }) // last;
            if (!eval { $self->look($client); 1 }) {
                undef $client;
                $self->next_server;
                next;
            }
        }
        my $operation = $self->pick(++$number);
        $self->write_down("begun $operation->{words}");
        my $answer = eval { $operation->{run}->($client) };
        if (!defined $answer || $answer =~ /^NO \[UNAVAILABLE\]/) {
            # The database may have been asked to commit already, and may do it when we have looked.
            $self->write_down("unknown $operation->{words}");
            $self->{maybe}{ $operation->{token} } = { time => time, after => $operation->{after}{ $operation->{token} } };
            undef $client;
            $self->next_server;
        } elsif ($answer =~ /^OK/) {
            $self->write_down("acknowledged $operation->{words}");
            $self->{model} = $operation->{after};
        } else {
            # What is refused has not happened; a fresh look tells.
            $self->write_down("refused $operation->{words}: $answer");
            $self->fault("$operation->{words}: $answer")
                if $answer =~ /^BAD/ || ($answer =~ /NONEXISTENT/ && !$self->maybe($operation->{token}));
            undef $client;
            sleep 0.1;
        }
    }
    undef $client;
    my $looked = $self->until_done(sub { $self->look($self->filer_client); 1 }, time + $last_look_s);
    $looked ? $self->write_down('looked last') : $self->fault("nobody answers at the end: $@");
}

sub filer_client {
    my ($self) = @_;
    my $client = eval { $self->server->imap(login => (accounts(%$self))[0], seconds => 40) };
    # "Could not ask" is not "no".
    $self->fault("the right password was refused: $@") if !$client && $@ =~ /AUTHENTICATIONFAILED/;
    return $client // die $@;
}

# How a message may be instead of what the model says: an operation on it got no answer, not long ago.
sub maybe {
    my ($self, $token) = @_;
    my $maybe = $self->{maybe}{$token};
    return $maybe && time - $maybe->{time} < 120 ? $maybe : undef;
}

sub copy_model {
    my ($model) = @_;
    return { map { $_ => { %{ $model->{$_} } } } keys %$model };
}

# In the folder of `client`, which is selected here, the UID of a message; undef with the answer of what failed.
sub uid_of {
    my ($client, $folder, $token) = @_;
    my $answer = $client->cmd(qq(SELECT "$folder"));
    return (undef, $answer) unless $answer =~ /^OK/;
    $answer = $client->cmd(qq(UID SEARCH HEADER Subject "$token"));
    my ($uid) = (join ' ', $client->untagged) =~ /\* SEARCH (\d+)/;
    return ($uid, defined $uid || $answer !~ /^OK/ ? $answer : "NO NONEXISTENT $token is not in $folder");
}

# One operation: what it is in words, how it is done, the model afterwards.
sub pick {
    my ($self, $number) = @_;
    my $after = copy_model($self->{model});
    my @there = map { my $token = $_; map { [$token, $_] } sort keys %{ $after->{$token} } } sort keys %$after;
    my $roll = rand;
    if (@there < 5 || ($roll < 0.4 && @there < 60)) {
        my $token = "$self->{name}-${number}x"; # none is the beginning of another
        my $folder = $folders[rand @folders];
        my $flag = rand() < 0.5 ? $flags[rand @flags] : '';
        my $text = message($token, rand() < 0.02 ? 200_000 : rand 4000) =~ s/\n/\r\n/gr;
        $self->{size}{$token} = length $text;
        $after->{$token}{$folder} = $flag;
        return { words => "append $token $folder", token => $token, after => $after, run => sub { $_[0]->append($folder, $text, $flag) } };
    }
    my ($token, $folder) = @{ $there[rand @there] };
    my @free = grep { !exists $after->{$token}{$_} } @folders;
    my $other = $free[rand @free];
    my ($name, @commands);
    if ($roll < 0.55 || !defined $other && $roll < 0.8) {
        my $flag = $flags[rand @flags];
        my %set = map { $_ => 1 } split(' ', $after->{$token}{$folder}), $flag;
        $after->{$token}{$folder} = join ' ', sort keys %set;
        ($name, @commands) = ('store', "STORE %d +FLAGS ($flag)");
    } elsif ($roll < 0.65 && defined $other) {
        $after->{$token}{$other} = $after->{$token}{$folder};
        ($name, @commands) = ('copy', qq(COPY %d "$other"));
    } elsif ($roll < 0.8) {
        $after->{$token}{$other} = delete $after->{$token}{$folder};
        ($name, @commands) = ('move', qq(MOVE %d "$other"));
    } else {
        delete $after->{$token}{$folder};
        delete $after->{$token} unless %{ $after->{$token} };
        ($name, @commands) = ('expunge', 'STORE %d +FLAGS.SILENT (\\Deleted)', 'EXPUNGE %d');
    }
    my $run = sub {
        my ($client) = @_;
        my ($uid, $answer) = uid_of($client, $folder, $token);
        for my $command (defined $uid ? @commands : ()) {
            $answer = $client->cmd('UID ' . sprintf $command, $uid);
            last unless $answer =~ /^OK/;
        }
        return $answer;
    };
    return { words => join(' ', $name, $token, $folder, $name =~ /copy|move/ ? $other : ()), token => $token, after => $after, run => $run };
}

# Everything that is there, compared with the model, or with what it may be.
sub look {
    my ($self, $client) = @_;
    my $found = {};
    for my $folder (@folders) {
        my $answer = $client->cmd(qq(SELECT "$folder"));
        die "SELECT: $answer" unless $answer =~ /^OK/;
        my ($validity) = (join ' ', $client->untagged) =~ /UIDVALIDITY (\d+)/;
        $answer = $client->cmd('UID FETCH 1:* (FLAGS RFC822.SIZE BODY.PEEK[HEADER.FIELDS (SUBJECT)])');
        die "FETCH: $answer" unless $answer =~ /^OK/;
        my $last = 0;
        for ($client->untagged) {
            my ($uid) = /UID (\d+)/ or next;
            my ($token) = /Subject: (\S+)/ or next;
            my ($flags) = /FLAGS \(([^)]*)\)/;
            my ($size) = /RFC822\.SIZE (\d+)/;
            $self->fault("$folder: UID $uid after $last") if $uid <= $last;
            $last = $uid;
            # A UID is one message's for ever (RFC 3501 2.3.1.1).
            my $known = $self->{token_of}{"$folder $validity $uid"} //= $token;
            $self->fault("$folder: UID $uid was $known, is $token") if $known ne $token;
            $self->fault("$folder: $token is there twice") if exists $found->{$token}{$folder};
            $self->fault("$folder: $token has $size bytes, sent $self->{size}{$token}")
                if ($self->{size}{$token} // $size) != $size;
            # \Deleted is the state within an expunge; \Recent is the session's.
            $found->{$token}{$folder} = join ' ', sort grep { !/^\\(?:Deleted|Recent)$/ } split ' ', $flags;
        }
    }
    my %all = map { $_ => 1 } keys %{ $self->{model} }, keys %$found;
    for my $token (sort keys %all) {
        my $wrong = difference($self->{model}{$token}, $found->{$token}) // next;
        my $maybe = $self->maybe($token);
        $self->fault("not as acknowledged: $token $wrong")
            if !$maybe || defined difference($maybe->{after}, $found->{$token});
    }
    $self->{model} = $found;
    $self->write_down('looked');
}

# In words, or undef: there is none.
sub difference {
    my ($wanted, $found) = @_;
    my @wrong;
    for my $folder (@folders) {
        my ($want, $have) = map { exists $_->{$folder} ? "($_->{$folder})" : 'nothing' } $wanted // {}, $found // {};
        push @wrong, "in $folder: wanted $want, found $have" if $want ne $have;
    }
    return @wrong ? join('; ', @wrong) : undef;
}

# -- manager: changes by the command line; what was answered with success holds --------------------------------------

sub manager {
    my ($self) = @_;
    my (@acknowledged, $number);
    until ($self->is_over) {
        my $alias = sprintf '%s-%d@example.test', $self->{name}, ++$number;
        $self->write_down("begun alias $alias");
        my ($status) = $self->server->cli(qw(alias add), $alias, 'nobody@example.org');
        if ($status == 0) {
            push @acknowledged, $alias;
            $self->write_down("acknowledged alias $alias");
        } else {
            $self->write_down("unknown alias $alias");
            $self->next_server;
        }
        sleep 0.1;
    }
    my $text = $self->until_done(sub { $self->all_aliases }, time + $last_look_s)
        // return $self->fault('nobody answers at the end');
    for (@acknowledged) {
        $self->fault("lost: alias $_ was acknowledged and is not there") unless $text =~ /^\Q$_\E\s/m;
    }
    $self->write_down('looked last');
}

sub all_aliases {
    my ($self) = @_;
    my ($all, $after) = (' ');
    do {
        my ($status, $list) = $self->server->cli(qw(alias list --limit 1000 --filter), "$self->{name}-", defined $after ? ('--after', $after) : ());
        return if $status;
        $all .= "\n$list";
        ($after) = $list =~ /^\(more: --after (.*)\)$/m;
    } while (defined $after);
    return $all;
}

# -- visitor: a page is whole and right, or the connection ends -----------------------------------------------------

sub visitor {
    my ($self) = @_;
    until ($self->is_over) {
        my ($name, $want) = @{ $self->{pages}[rand @{ $self->{pages} }] };
        my ($head, $body) = eval {
            local $SIG{ALRM} = sub { die "no answer\n" };
            alarm 30;
            my $socket = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->server->port('http')) or die "connect\n";
            print $socket "GET /$name HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
            local $/;
            my $text = <$socket> // '';
            alarm 0;
            split /\r\n\r\n/, $text, 2;
        };
        alarm 0;
        if (!defined $body || $head !~ m{^HTTP/1\.1 (\d+).*?^Content-Length: (\d+)}ims || length $body < $2) {
            $self->write_down("unknown page $name");
            $self->next_server;
            next;
        }
        my ($status, $length) = ($1, $2);
        if ($status == 200) {
            $self->fault("$name is not the file") unless $body eq $want;
            $self->write_down("acknowledged page $name");
        } else {
            $self->fault("$name: status $status") unless $status == 503;
            $self->next_server;
        }
        sleep 0.02;
    }
    $self->write_down('looked last');
}

# -- searcher: the directory finds who is there, or says that it cannot ask; never that the password is wrong ---------

sub searcher {
    my ($self) = @_;
    my $mail = (accounts(%$self))[0] . '@example.test';
    my $client;
    until ($self->is_over) {
        $client //= $self->until_done(sub {
            my $new = Posthouse::Client::Ldap->connect(port => $self->server->port('ldaps'), tls => 1, ca_file => $self->server->ca_file,
                seconds => 30);
            my ($code) = $new->bind($mail, $Posthouse::password);
            $self->fault("the right password was refused: result $code") if $code == 49;
            $code == 0 ? $new : undef;
        }) // last;
        my ($code, @entries) = eval { $client->search('dc=example,dc=test', 2, Posthouse::Client::Ldap::equal('mail', $mail)) };
        if (!defined $code || $code != 0) {
            $self->write_down('unknown search ' . ($code // ''));
            $self->fault("the search of $mail: result $code") if defined $code && $code != 52 && $code != 51;
            undef $client;
            $self->next_server;
            next;
        }
        $self->fault("the search of $mail found " . scalar @entries) unless @entries == 1;
        $self->write_down("acknowledged search $mail");
        sleep 0.02;
    }
    $self->write_down('looked last');
}

1;
