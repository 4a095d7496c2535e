# Slapd.pm - a real slapd as a directory behind ours
#
#   my $slapd = Posthouse::Slapd->start(suffix => 'dc=corp,dc=test', entries => $ldif);
#   $slapd->port; $slapd->url;                # ldap://127.0.0.1:PORT
#   $slapd->tls_url; $slapd->ca;              # with tls => 1: ldaps://127.0.0.1:PORT, and the PEM to trust
#   $slapd->search('-b', 'dc=corp,dc=test');  # asked directly, as the manager; status and text
#   $slapd->kill; $slapd->serve;              # ends at once; comes back with its data
#   $slapd->halt; $slapd->go_on;              # SIGSTOP and SIGCONT
#   $slapd->log;                              # what it logged (statistics: each connection and operation)
#
# The manager is cn=manager,SUFFIX with the password "manager". `config` are lines for its database. It
# has a folder of its own, which goes with it, and listens on loopback only.
package Posthouse::Slapd;
use strict;
use warnings;
use Carp qw(croak);
use File::Path qw(remove_tree);
use File::Temp qw(tempdir);
use IO::Socket::INET;
use Posthouse ();

our $program = (grep { -x } qw(/usr/sbin/slapd /usr/libexec/slapd))[0];

sub is_there { defined $program }

sub _free_port {
    my $socket = IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => 0, Listen => 1)
        or croak "listen: $!";
    return $socket->sockport;
}

sub start {
    my ($class, %option) = @_;
    my $folder = tempdir('slapd-XXXXXX', DIR => $ENV{PH_TEST_DIR} // '/tmp');
    my $self = bless {
        folder => $folder, owner => $$, suffix => $option{suffix},
        port => _free_port(), tls_port => $option{tls} ? _free_port() : undef,
    }, $class;
    mkdir "$folder/data";
    my $config = join '', map { "include /etc/ldap/schema/$_.schema\n" } qw(core cosine inetorgperson);
    $config .= "pidfile $folder/slapd.pid\nargsfile $folder/slapd.args\nmodulepath /usr/lib/ldap\n"
        . "moduleload back_mdb\nmoduleload sssvlv\nmoduleload syncprov\nloglevel stats\nthreads 4\n";
    $config .= $self->_certificate if $option{tls};
    $config .= $option{global} // '';
    $config .= "database mdb\nmaxsize 67108864\nsuffix \"$option{suffix}\"\ndirectory $folder/data\nindex objectClass,uid eq\n"
        . "rootdn \"cn=manager,$option{suffix}\"\nrootpw manager\noverlay sssvlv\noverlay syncprov\n";
    $config .= $option{config} // '';
    Posthouse::spew("$folder/slapd.conf", $config);
    if (defined $option{entries}) {
        Posthouse::spew("$folder/entries.ldif", $option{entries});
        my ($status, $text) = Posthouse::run(
            [$program =~ s/slapd$/slapadd/r, '-f', "$folder/slapd.conf", '-l', "$folder/entries.ldif"]);
        croak "slapadd: $text" if $status;
    }
    $self->serve;
    return $self;
}

# A certificate for 127.0.0.1 that is its own authority.
sub _certificate {
    my ($self) = @_;
    my $folder = $self->{folder};
    my ($status, $text) = Posthouse::run([qw(openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes
        -days 2 -subj /CN=directory.example.test -addext), 'subjectAltName=IP:127.0.0.1,DNS:localhost',
        '-keyout', "$folder/key.pem", '-out', "$folder/cert.pem"]);
    croak "openssl: $text" if $status;
    return "TLSCertificateFile $folder/cert.pem\nTLSCertificateKeyFile $folder/key.pem\n"
        . "TLSCACertificateFile $folder/cert.pem\n";
}

sub port { $_[0]{port} }
sub url { "ldap://127.0.0.1:$_[0]{port}" }
sub tls_url { "ldaps://127.0.0.1:$_[0]{tls_port}" }
sub ca { Posthouse::slurp("$_[0]{folder}/cert.pem") }
sub ca_file { "$_[0]{folder}/cert.pem" }
sub log { Posthouse::slurp("$_[0]{folder}/log") // '' }

sub serve {
    my ($self) = @_;
    my $urls = $self->url . '/';
    $urls .= ' ' . $self->tls_url . '/' if $self->{tls_port};
    my $pid = fork // croak "fork: $!";
    if ($pid == 0) {
        open STDIN, '<', '/dev/null';
        open STDOUT, '>>', "$self->{folder}/log";
        open STDERR, '>&', \*STDOUT;
        exec $program, '-d', 'stats', '-f', "$self->{folder}/slapd.conf", '-h', $urls or POSIX::_exit(127);
    }
    $self->{pid} = $pid;
    Posthouse::wait_until(20, sub {
        IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port}, Timeout => 1);
    }) or croak 'slapd does not listen: ' . $self->log;
    return $self;
}

# Waits for it with SIGTERM (it says goodbye), or ends it at once with SIGKILL.
sub _end {
    my ($self, $signal) = @_;
    return unless $self->{pid} && $self->{owner} == $$;
    CORE::kill($signal, $self->{pid});
    local ($?, $!);
    waitpid $self->{pid}, 0;
    $self->{pid} = undef;
}

sub kill { $_[0]->_end('KILL') }
sub stop { $_[0]->_end('TERM') }
sub halt { CORE::kill('STOP', $_[0]{pid}) }
sub go_on { CORE::kill('CONT', $_[0]{pid}) }

sub search {
    my ($self, @arguments) = @_;
    return Posthouse::run(['ldapsearch', '-LLL', '-o', 'ldif-wrap=no', '-x', '-H', $self->url,
        '-D', "cn=manager,$self->{suffix}", '-w', 'manager', @arguments]);
}

# How many searches with this text in their line it was asked.
sub count {
    my ($self, $text) = @_;
    return scalar(() = $self->log =~ /SRCH [^\n]*\Q$text\E/g);
}

sub DESTROY {
    my ($self) = @_;
    return unless $self->{owner} == $$;
    $self->go_on if $self->{pid};
    $self->stop;
    remove_tree($self->{folder}, { error => \my $ignored });
}

1;
