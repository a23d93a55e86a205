import { BlockList, isIPv4, isIPv6 } from 'node:net'
import { type Cidr, parseCidr } from '../net/cidr.ts'

/**
 * IPv4 networks in which no public server is (the special-purpose registries of IANA, RFC 6890 and later):
 * this host, private networks, link-local addresses (which include a cloud's metadata service), carrier-grade
 * NAT, documentation, benchmarks, multicast.
 */
const privateIpv4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12'],
  ...['192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15'],
  ...['198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4', '240.0.0.0/4'],
]

/**
 * The network of public IPv6 addresses. All others are rejected: ::1, unique local and link-local addresses,
 * IPv4-mapped addresses, NAT64. `privateIpv6` lists the networks in it that are rejected too: those of
 * protocols such as Teredo and 6to4, and of documentation.
 */
const publicIpv6 = ['2000::/3']
const privateIpv6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

/** The addresses to which webhooks may be posted. */
export class AddressPolicy {
  /** Whether URLs may begin with http:// instead of https://. */
  readonly allowsHttp: boolean
  readonly #exceptions: BlockList

  /** @param allowed networks that are allowed although they are not public */
  constructor(allowed: readonly Cidr[], allowsHttp: boolean) {
    this.allowsHttp = allowsHttp
    this.#exceptions = toBlockList(allowed)
  }

  /** Returns whether connections may be made to an IPv4 or IPv6 address. Any other text is not allowed. */
  allows(address: string): boolean {
    const ip = unmapped(address)
    return ip !== undefined && (includes(this.#exceptions, ip) || isPublic(ip))
  }
}

const [blockedIpv4, blockedIpv6, unicastIpv6] = [privateIpv4, privateIpv6, publicIpv6].map(texts =>
  toBlockList(texts.map(text => parseCidr(text)).filter(cidr => cidr !== undefined)),
) as [BlockList, BlockList, BlockList]

function isPublic(ip: string): boolean {
  if (isIPv4(ip)) return !includes(blockedIpv4, ip)
  return includes(unicastIpv6, ip) && !includes(blockedIpv6, ip)
}

function toBlockList(networks: readonly Cidr[]): BlockList {
  const list = new BlockList()
  for (const { address, prefix } of networks) list.addSubnet(address, prefix, findFamily(address))
  return list
}

function includes(list: BlockList, ip: string): boolean {
  return list.check(ip, findFamily(ip))
}

function findFamily(address: string): 'ipv4' | 'ipv6' {
  return isIPv4(address) ? 'ipv4' : 'ipv6'
}

/**
 * Returns the address that a connection reaches: an IPv4-mapped address such as `::ffff:10.0.0.1` reaches
 * 10.0.0.1. Undefined for an address with a zone and for a text that is no address.
 */
function unmapped(address: string): string | undefined {
  if (isIPv4(address)) return address
  if (!isIPv6(address) || address.includes('%')) return undefined
  const canonical = URL.parse(`http://[${address}]`)?.hostname.slice(1, -1) ?? ''
  const [, high = '', low = ''] = /^::ffff:([0-9a-f]{1,4}):([0-9a-f]{1,4})$/.exec(canonical) ?? []
  if (high === '') return canonical
  const bits = [high, low].map(part => Number.parseInt(part, 16))
  return bits.flatMap(part => [part >> 8, part & 255]).join('.')
}
