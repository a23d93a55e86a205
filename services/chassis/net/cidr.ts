import { isIP } from 'node:net'
import type { SettingKind } from '../settings.ts'

/** An IPv4 or IPv6 network. The prefix is in bits. */
export interface Cidr {
  readonly address: string
  readonly prefix: number
}

export function parseCidr(text: string): Cidr | undefined {
  const [, address = '', digits = ''] = /^([0-9a-f.:]+)\/(\d{1,3})$/i.exec(text) ?? []
  const prefix = Number(digits)
  const version = isIP(address)
  return version === 0 || prefix > (version === 4 ? 32 : 128) ? undefined : { address, prefix }
}

/** Networks separated by commas; an empty text means none. */
export const cidrs: SettingKind<readonly Cidr[]> = {
  allowed: 'networks such as 10.1.0.0/16,fd00::/8',
  parse: value => {
    const parsed = value === '' ? [] : value.split(',').map(text => parseCidr(text.trim()))
    const good = parsed.filter(cidr => cidr !== undefined)
    return good.length < parsed.length ? undefined : good
  },
}
