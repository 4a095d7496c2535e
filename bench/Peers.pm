# Peers.pm - the servers that Posthouse is measured beside, as Debian has them
#
#   my $peer = Peers::Mail->new(accounts => 16, smtp => 1);   # Postfix and Dovecot
#   my $peer = Peers::web('nginx', root => $root, state => $server->state);   # or lighttpd
#
# Each side of a comparison, ours and theirs, has a name, ports by name, and the ids of the processes below
# which all of its processes are: what Bench.pm asks for. Every peer has a configuration and data of its own
# below the bench's folder, stays in the foreground, listens on 127.0.0.1, and is stopped by its id at the end.
package Peers;
use strict;
use warnings;
use Bench;
use IO::Socket::INET;
use POSIX ();

my @running;
my $process = $$;

# These peers take no port 0.
sub free_port {
    my $socket = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die "listen: $!";
    return $socket->sockport;
}

sub run {
    my ($status, $text) = Posthouse::run([@_]);
    die "@_: $text" if $status;
    return $text;
}

# Starts a peer and waits until `is_up` gives true (a number: until that port answers); gives its process id.
sub start {
    my ($name, $is_up, @command) = @_;
    my $log = "$Bench::folder/$name.out";
    my $pid = fork // die "fork: $!";
    if ($pid == 0) {
        open STDIN, '<', '/dev/null';
        open STDOUT, '>>', $log;
        open STDERR, '>&', \*STDOUT;
        setpgrp 0, 0;
        exec @command or POSIX::_exit(127);
    }
    push @running, $pid;
    my $asked = ref $is_up ? $is_up : sub { IO::Socket::INET->new("127.0.0.1:$is_up") };
    Posthouse::wait_until(20, $asked) or die "$name did not start: " . (Posthouse::slurp($log) // '');
    return $pid;
}

sub stop_all {
    for my $pid (reverse @running) {
        my @tree = Bench::tree($pid);
        kill TERM => $pid;
        if (!Posthouse::wait_until(10, sub { waitpid($pid, POSIX::WNOHANG()) == $pid })) {
            kill KILL => $pid;
            waitpid $pid, 0;
        }
        Posthouse::wait_until(5, sub { !grep { Posthouse::is_alive($_) } @tree });
        kill KILL => grep { Posthouse::is_alive($_) } @tree;
    }
    @running = ();
}

END {
    local $?;
    stop_all() if $$ == $process;
}

sub need {
    my ($what, @programs) = @_;
    -x $_ or die "$what: $_ is not installed\n" for @programs;
}

# -- Postfix and Dovecot ----------------------------------------------------------------------------

package Peers::Mail {
    my $postfix_home = '/usr/lib/postfix/sbin';

    # Options: accounts => N (u0 ... of example.test, all with Posthouse's password of tests); smtp => 1: with
    # Postfix, as "smtp". Dovecot always answers as "imap" and "lmtp".
    sub new {
        my ($class, %option) = @_;
        Peers::need('dovecot', '/usr/sbin/dovecot');
        my $self = bless { accounts => $option{accounts}, folder => "$Bench::folder/peer" }, $class;
        $self->{port} = { map { ($_ => Peers::free_port()) } qw(smtp imap lmtp) };
        @$self{qw(uid gid)} = (getpwnam $Bench::user)[2, 3];
        for my $name ('', qw(/dovecot /dovecot/run /mail)) {
            mkdir "$self->{folder}$name" or die "$self->{folder}$name: $!";
            chmod 0755, "$self->{folder}$name";
        }
        chown @$self{qw(uid gid)}, "$self->{folder}/mail" if $> == 0;
        $self->write_dovecot;
        push @{ $self->{roots} }, Peers::start('dovecot', $self->{port}{imap}, '/usr/sbin/dovecot', '-F', '-c',
            "$self->{folder}/dovecot/dovecot.conf");
        $self->start_postfix if $option{smtp};
        return $self;
    }

    sub name { 'postfix-dovecot' }
    sub port { $_[0]{port}{ $_[1] } }
    sub roots { @{ $_[0]{roots} } }

    # Messages in all inboxes that were delivered and not looked at yet.
    sub count {
        my ($self) = @_;
        my $sum = 0;
        for my $folder (glob "$self->{folder}/mail/*/new") {
            opendir my $names, $folder or next;
            $sum += grep { !/^\./ } readdir $names;
        }
        return $sum;
    }

    # Each account has a Maildir. Dovecot's defaults, except for the limits that would stop one address with
    # many sessions, a cache of logins, and login processes that serve many logins each, which its manual calls
    # the high-performance mode. Passwords are hashed as `doveadm pw` does when nothing is asked
    # for (bcrypt).
    sub write_dovecot {
        my ($self) = @_;
        my $folder = $self->{folder};
        my $hash = Peers::run('doveadm', 'pw', '-p', $Posthouse::password);
        chomp $hash;
        Posthouse::spew("$folder/dovecot/users",
            join '', map { "u$_\@example.test:$hash\n" } 0 .. $self->{accounts} - 1);
        Posthouse::spew("$folder/dovecot/dovecot.conf", <<"END");
base_dir = $folder/dovecot/run
state_dir = $folder/dovecot
log_path = $folder/dovecot.log
protocols = imap lmtp
listen = 127.0.0.1
ssl = no
disable_plaintext_auth = no
mail_location = maildir:$folder/mail/%n
first_valid_uid = 1
first_valid_gid = 1
auth_username_format = %Lu
auth_cache_size = 10M
mail_max_userip_connections = 10000
passdb {
  driver = passwd-file
  args = $folder/dovecot/users
}
userdb {
  driver = static
  args = uid=$self->{uid} gid=$self->{gid} home=$folder/mail/%n allow_all_users=yes
}
service imap-login {
  service_count = 0
  process_min_avail = 2
  client_limit = 4000
  process_limit = 4
  inet_listener imap {
    port = $self->{port}{imap}
  }
  inet_listener imaps {
    port = 0
  }
}
service imap {
  process_limit = 4000
}
service anvil {
  client_limit = 20000
}
service auth {
  client_limit = 20000
}
service lmtp {
  inet_listener lmtp {
    port = $self->{port}{lmtp}
  }
  unix_listener $folder/dovecot/run/lmtp-in {
    mode = 0666
  }
}
namespace inbox {
  inbox = yes
}
END
    }

    sub start_postfix {
        my ($self) = @_;
        die "the peer needs root: Postfix changes its user\n" if $> != 0;
        Peers::need('postfix', "$postfix_home/master");
        for my $name (qw(/postfix /queue /data)) {
            mkdir "$self->{folder}$name" or die "$self->{folder}$name: $!";
            chmod 0755, "$self->{folder}$name";
        }
        chown scalar(getpwnam 'postfix'), -1, "$self->{folder}/data";
        $self->write_postfix;
        Peers::run('postfix', '-c', "$self->{folder}/postfix", 'check');
        push @{ $self->{roots} }, Peers::start('postfix', $self->{port}{smtp}, "$postfix_home/master", '-c',
            "$self->{folder}/postfix", '-d');
    }

    # Postfix's defaults, except what would hold it back: it may take mail as fast as it can, and begins with as
    # many deliveries at once as it may have.
    sub write_postfix {
        my ($self) = @_;
        my $folder = $self->{folder};
        Posthouse::spew("$folder/postfix/accounts",
            join '', map { "u$_\@example.test u$_\n" } 0 .. $self->{accounts} - 1);
        Posthouse::spew("$folder/postfix/main.cf", <<"END");
compatibility_level = 3.6
queue_directory = $folder/queue
data_directory = $folder/data
maillog_file = $folder/postfix.log
maillog_file_prefixes = $folder
myhostname = mx.example.test
mydestination =
inet_interfaces = 127.0.0.1
inet_protocols = ipv4
mynetworks = 127.0.0.0/8
virtual_mailbox_domains = example.test
virtual_mailbox_maps = texthash:$folder/postfix/accounts
virtual_transport = lmtp:unix:$folder/dovecot/run/lmtp-in
alias_maps =
local_recipient_maps =
in_flow_delay = 0
initial_destination_concurrency = 20
END
        Posthouse::spew("$folder/postfix/master.cf", <<"END");
127.0.0.1:$self->{port}{smtp} inet n - n - - smtpd
postlog unix-dgram n - n - 1 postlogd
pickup unix n - n 60 1 pickup
cleanup unix n - n - 0 cleanup
qmgr unix n - n 300 1 qmgr
tlsmgr unix - - n 1000? 1 tlsmgr
rewrite unix - - n - - trivial-rewrite
bounce unix - - n - 0 bounce
defer unix - - n - 0 bounce
trace unix - - n - 0 bounce
verify unix - - n - 1 verify
flush unix n - n 1000? 0 flush
proxymap unix - - n - - proxymap
error unix - - n - - error
retry unix - - n - - error
discard unix - - n - - discard
lmtp unix - - n - - lmtp
anvil unix - - n - 1 anvil
scache unix - - n - 1 scache
END
    }
}

# -- web servers ------------------------------------------------------------------------------------

package Peers::Web {
    sub name { $_[0]{name} }
    sub port { $_[0]{port}{ $_[1] } }
    sub pids { Bench::tree($_[0]{pid}) }
    sub has_pages { $_[0]{has_pages} }
}

# Packaged defaults but for names, paths, and one worker a CPU; both write an access log. The certificate is the
# server's that they stand beside.
package Peers;

sub web {
    my ($name, %option) = @_;
    my $folder = "$Bench::folder/$name";
    mkdir $folder or die "$folder: $!";
    my %make = (lighttpd => \&lighttpd, nginx => \&nginx);
    my $self = bless { name => $name, port => { http => free_port(), https => free_port() } }, 'Peers::Web';
    $make{$name}->($self, $folder, \%option);
    return $self;
}

sub cpus { my $n = () = (Posthouse::slurp('/proc/cpuinfo') =~ /^processor/mg); return $n }

sub lighttpd {
    my ($self, $folder, $option) = @_;
    need('lighttpd', '/usr/sbin/lighttpd');
    Posthouse::spew("$folder/lighttpd.conf", <<"END");
server.modules = ("mod_accesslog", "mod_openssl")
server.document-root = "$option->{root}"
server.bind = "127.0.0.1"
server.port = $self->{port}{http}
server.max-worker = ${\ cpus() }
server.errorlog = "$folder/error.log"
accesslog.filename = "$folder/access.log"
mimetype.assign = (".html" => "text/html; charset=utf-8")
\$SERVER["socket"] == "127.0.0.1:$self->{port}{https}" {
    ssl.engine = "enable"
    ssl.pemfile = "$option->{state}/tls/cert.pem"
    ssl.privkey = "$option->{state}/tls/key.pem"
    ssl.openssl.ssl-conf-cmd = ("MinProtocol" => "TLSv1.3")
}
END
    $self->{pid} = start('lighttpd', $self->{port}{http}, '/usr/sbin/lighttpd', '-D', '-f', "$folder/lighttpd.conf");
}

sub nginx {
    my ($self, $folder, $option) = @_;
    need('nginx', '/usr/sbin/nginx');
    my $modules = '/usr/share/nginx/modules-available';
    my $load = join '', map { Posthouse::slurp("$modules/$_") // '' } 'mod-http-ndk.conf', 'mod-http-lua.conf';
    my $user = $> == 0 ? "user $Bench::user;" : '';
    $self->{has_pages} = $load ne '';
    Posthouse::spew("$folder/nginx.conf", <<"END");
$load
$user
daemon off;
worker_processes ${\ cpus() };
pid $folder/pid;
error_log $folder/error.log;
events { worker_connections 4096; }
http {
    include /etc/nginx/mime.types;
    sendfile on;
    tcp_nopush on;
    access_log $folder/access.log combined;
    client_body_temp_path $folder/body;
    proxy_temp_path $folder/proxy;
    fastcgi_temp_path $folder/fastcgi;
    uwsgi_temp_path $folder/uwsgi;
    scgi_temp_path $folder/scgi;
    server {
        listen 127.0.0.1:$self->{port}{http};
        listen 127.0.0.1:$self->{port}{https} ssl;
        ssl_protocols TLSv1.3;
        ssl_certificate $option->{state}/tls/cert.pem;
        ssl_certificate_key $option->{state}/tls/key.pem;
        root $option->{root};
        @{[ $load ? q(location = /hello.lua { default_type text/html; content_by_lua_block { ngx.print("hello\n") } }) : '' ]}
    }
}
END
    $self->{pid} = start('nginx', $self->{port}{http}, '/usr/sbin/nginx', '-c', "$folder/nginx.conf", '-e',
        "$folder/error.log");
}

# -- directories ------------------------------------------------------------------------------------

package Peers::Directory {
    sub name { $_[0]{name} }
    sub port { $_[0]{port} }
    sub pids { $_[0]{pid} }
}

package Peers;

# A slapd with entries uid=u0 ... below ou=people,dc=example,dc=org, all with Posthouse's password of tests: what
# is asked through the proxies. Whoever asks may read it.
sub directory {
    my ($entries) = @_;
    need('slapd', '/usr/sbin/slapd', '/usr/sbin/slapadd');
    my $folder = "$Bench::folder/directory";
    mkdir $_ or die "$_: $!" for $folder, "$folder/data";
    my $ldif = "dn: dc=example,dc=org\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n\n"
        . "dn: ou=people,dc=example,dc=org\nobjectClass: organizationalUnit\nou: people\n\n";
    for my $n (0 .. $entries - 1) {
        $ldif .= "dn: uid=u$n,ou=people,dc=example,dc=org\nobjectClass: inetOrgPerson\nuid: u$n\ncn: Person $n\nsn: $n\n"
            . "mail: u$n\@example.org\ntelephoneNumber: +1 555 0100\nuserPassword: $Posthouse::password\n\n";
    }
    Posthouse::spew("$folder/entries.ldif", $ldif);
    Posthouse::spew("$folder/slapd.conf", <<"END");
${\ slapd_begin() }
moduleload back_mdb
database mdb
suffix "dc=example,dc=org"
directory $folder/data
maxsize 268435456
dbnosync
index mail eq
END
    run('slapadd', '-q', '-f', "$folder/slapd.conf", '-l', "$folder/entries.ldif");
    return slapd('directory', $folder);
}

# back-ldap in front of it, with at most so many connections to it.
sub back_ldap {
    my ($directory, $connections) = @_;
    my $folder = "$Bench::folder/back-ldap";
    mkdir $folder or die "$folder: $!";
    Posthouse::spew("$folder/slapd.conf", <<"END");
${\ slapd_begin() }
moduleload back_ldap
database ldap
suffix "dc=example,dc=org"
uri ldap://127.0.0.1:${\ $directory->port }
conn-pool-max $connections
chase-referrals no
END
    my $self = slapd('back-ldap', $folder);
    $self->{name} = 'slapd';
    return $self;
}

sub slapd_begin {
    return join "\n", 'modulepath /usr/lib/ldap', map({ "include /etc/ldap/schema/$_.schema" } qw(core cosine inetorgperson)),
        'idletimeout 0', 'loglevel 0';
}

sub slapd {
    my ($name, $folder) = @_;
    my $port = free_port();
    my $pid = start($name, $port, '/usr/sbin/slapd', '-d', '0', '-f', "$folder/slapd.conf", '-h', "ldap://127.0.0.1:$port");
    return bless { name => $name, port => $port, pid => $pid }, 'Peers::Directory';
}

1;
