import { BlockList, isIPv4, isIPv6 } from 'node:net'
import { type Cidr, parseCidr } from '../net/cidr.ts'

/** IPv4 networks without public servers (IANA's special-purpose registries, RFC 6890). */
const privateIpv4 = [
  ...['0.0.0.0/8', '10.0.0.0/8', '100.64.0.0/10', '127.0.0.0/8', '169.254.0.0/16', '172.16.0.0/12'],
  ...['192.0.0.0/24', '192.0.2.0/24', '192.88.99.0/24', '192.168.0.0/16', '198.18.0.0/15'],
  ...['198.51.100.0/24', '203.0.113.0/24', '224.0.0.0/4', '240.0.0.0/4'],
]

/** Public IPv6 addresses, apart from `privateIpv6`. */
const publicIpv6 = ['2000::/3']
const privateIpv6 = ['2001::/23', '2001:db8::/32', '2002::/16', '3fff::/20']

export class AddressPolicy {
  readonly allowsHttp: boolean
  readonly #exceptions: BlockList

  /** @param allowed networks that are allowed although they are not public */
  constructor(allowed: readonly Cidr[], allowsHttp: boolean) {
    this.allowsHttp = allowsHttp
    this.#exceptions = toBlockList(allowed)
  }

  /**
   * Returns whether a webhook may be sent to the address. A text that is not an IPv4 or IPv6 address is not
   * allowed.
   */
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
 * Returns the IPv4 address in an IPv4-mapped one, since `::ffff:10.0.0.1` reaches 10.0.0.1. Undefined for an
 * address with a zone and for other texts.
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
