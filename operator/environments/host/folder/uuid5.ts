import { createHash } from 'node:crypto'

/**
 * The UUID namespace for the uids of a folder's resources. It is a random constant and must never change,
 * because every resource would then count as a new one.
 */
export const tollwayNamespace = '5b1f7c06-9a3e-4d52-8c47-e0d6a1b3f928'

/**
 * Returns the UUID of a name in a UUID namespace (RFC 9562, section 5.5). It is the same on every machine.
 */
export function uuid5(namespace: string, name: string): string {
  const digest = createHash('sha1')
    .update(Buffer.from(namespace.replaceAll('-', ''), 'hex'))
    .update(name, 'utf8')
  const bytes = digest.digest().subarray(0, 16)
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | 0x50, 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  return bytes.toString('hex').replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, '$1-$2-$3-$4-$5')
}
