# Posthouse::Console - a client of the console's API
#
#   my $console = Posthouse::Console->new($server);          # knows the server's authority
#   $console->login('admin');
#   my $answer = $console->call(GET => '/domains');          # {status, body (decoded), headers}
#   $console->call(POST => '/domains', {name => 'example.org'});
#   my $program = Posthouse::Console->new($server, key => $key);
package Posthouse::Console;
use strict;
use warnings;
use HTTP::Tiny;
use JSON::PP ();

my $json = JSON::PP->new->utf8->canonical;

sub new {
    my ($class, $server, %option) = @_;
    my $http = HTTP::Tiny->new(
        verify_SSL => 1,
        SSL_options => {SSL_ca_file => $server->ca_file},
        timeout => 30,
        keep_alive => $option{keep_alive} // 1,
    );
    return bless {http => $http, base => 'https://localhost:' . $server->port('console'), %option}, $class;
}

# A request as it is; what it needs to be allowed is added.
sub raw {
    my ($self, $method, $path, %option) = @_;
    my %headers = %{ $option{headers} // {} };
    $headers{Cookie} //= "__Host-posthouse=$self->{token}" if defined $self->{token};
    $headers{Authorization} //= "Bearer $self->{key}" if defined $self->{key};
    return $self->{http}->request($method, $self->{base} . $path,
        {headers => \%headers, defined $option{content} ? (content => $option{content}) : ()});
}

sub call {
    my ($self, $method, $path, $arguments) = @_;
    my %headers;
    $headers{'X-CSRF-Token'} = $self->{csrf} if defined $self->{csrf} && $method ne 'GET';
    $headers{'Content-Type'} = 'application/json' if defined $arguments;
    my $answer = $self->raw($method, "/api/v1$path", headers => \%headers,
        defined $arguments ? (content => $json->encode($arguments)) : ());
    $answer->{body} = eval { $json->decode($answer->{content}) };
    return $answer;
}

sub login {
    my ($self, $login, $password) = @_;
    my $answer = $self->call(POST => '/session', {login => $login, password => $password // $Posthouse::password});
    $self->enter($answer);
    return $answer;
}

# Takes the session of an answer.
sub enter {
    my ($self, $answer) = @_;
    my ($token) = ($answer->{headers}{'set-cookie'} // '') =~ /^__Host-posthouse=([\w-]+);/;
    @$self{qw(token csrf)} = ($token, $answer->{body}{csrf}) if $answer->{status} == 200;
    return;
}

1;
