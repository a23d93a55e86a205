const ipv4Address = /\d{1,3}\.\d{1,3}\.\d{1,3}\.\d{1,3}/g
const reserved = /[:|]/g

/**
 * Returns a name that is valid for statistics: `:` and `|` separate the fields of a statsd line, and the dots
 * of an IPv4 address would be taken for levels of the name. These characters become `_`, as in
 * envoyproxy/ratelimit.
 */
export function sanitizeStatName(name: string): string {
  return name.replace(reserved, '_').replace(ipv4Address, address => address.replaceAll('.', '_'))
}
