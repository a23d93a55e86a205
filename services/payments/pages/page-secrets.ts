import { join } from 'node:path'
import { readSecret, watchSecret } from '../follow-secret.ts'

const minSecretBytes = 32

interface PageSecretsOptions {
  /** The value of the setting PAY_PAGE_SECRET. If empty, the secret is stored in `folder`. */
  readonly set: string
  /** The file that the setting was read from; undefined if the variable contains the value. */
  readonly path: string | undefined
  readonly folder: string
  /** Called with the reason why a changed file is not used. The text does not contain the secret. */
  readonly onWarning: (text: string) => void
}

/**
 * Returns a function that returns the present secrets of the payment page, one for each line of the setting.
 * The first one encrypts tokens; all of them decrypt. Each call reads the file, so that a rotation needs no
 * restart. While the file has a line that is too short, the previous secrets are returned.
 *
 * @throws RangeError if a secret is too short at the start
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
