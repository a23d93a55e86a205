import { mkdir, open, rename } from 'node:fs/promises'
import { join } from 'node:path'
import { MailError, type MailTransport } from './mail-transport.ts'

/**
 * Writes each mail atomically into a separate file `<time>-<id>.eml`, for installations without a mail
 * server. A mail that is sent again replaces its file.
 *
 * @param folder created if it is missing, with access for its owner only
 */
export function createFolderTransport(folder: string): MailTransport {
  return {
    async send({ id, createdMs, bytes }) {
      const time = new Date(createdMs).toISOString().replaceAll(':', '-')
      const path = join(folder, `${time}-${id}.eml`)
      // Two processes can write the same mail at the same time.
      const draft = `${path}.${process.pid}.part`
      try {
        await mkdir(folder, { recursive: true, mode: 0o700 })
        await writeDurably(draft, bytes)
        await rename(draft, path)
      } catch (cause) {
        throw new MailError(`the mail cannot be written: ${(cause as Error).message}`, false, { cause })
      }
    },
  }
}

async function writeDurably(path: string, bytes: Uint8Array): Promise<void> {
  const file = await open(path, 'w', 0o600)
  try {
    await file.writeFile(bytes)
    await file.sync()
  } finally {
    await file.close()
  }
}
