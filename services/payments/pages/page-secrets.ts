import { join } from 'node:path'
import { readSecret, watchSecret } from '../follow-secret.ts'

const minSecretBytes = 32

interface PageSecretsOptions {
  /** The setting; empty if the secret is stored in the folder. */
  readonly set: string
  /** The file that the setting was read from; undefined where it was given as it is. */
  readonly path: string | undefined
  readonly folder: string
  /** Receives, without the secret, why a changed file is not used. */
  readonly onWarning: (text: string) => void
}

/**
 * The secrets of the payment page, one a line. The first encrypts, all of them decrypt. The file is read again when
 * it is used, so that a rotation needs no restart; while it has a line that is too short, the secrets before
 * stay in force.
 *
 * @throws RangeError when a secret is too short at the start
 */
export function watchPageSecrets(options: PageSecretsOptions): () => readonly Uint8Array[] {
  const { set, folder, onWarning } = options
  const kept = join(folder, 'pay-page-secret')
  const first = set !== '' ? set : Buffer.from(readSecret('', folder, 'pay-page-secret')).toString('utf8')
  const path = set !== '' ? options.path : kept
  const text = watchSecret({ first, path, onWarning })
  let current = first
  let secrets = parseSecrets(first)
  return () => {
    const found = text()
    if (found === current) return secrets
    current = found
    try {
      secrets = parseSecrets(found)
    } catch (error) {
      onWarning(`${path}: ${(error as Error).message}; the secrets before it are still used`)
    }
    return secrets
  }
}

function parseSecrets(text: string): readonly Uint8Array[] {
  const lines = text.split(/\r?\n/).filter(line => line !== '')
  for (const [index, line] of lines.entries()) {
    const bytes = Buffer.byteLength(line)
    if (bytes >= minSecretBytes) continue
    throw new RangeError(`secret ${index + 1}: has ${bytes} bytes; at least ${minSecretBytes} are needed`)
  }
  if (lines.length === 0) throw new RangeError('secret: is missing')
  return lines.map(line => Buffer.from(line, 'utf8'))
}
