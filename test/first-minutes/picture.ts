/** `node test/first-minutes/picture.ts` records the first minutes again, and writes the README's picture. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { root } from '../support/tollway.ts'
import { recordSession } from './record-session.ts'
import { terminalPicture } from './terminal-picture.ts'

const ends: (() => Promise<void>)[] = []
try {
  const lines = await recordSession({ after: end => void ends.push(end) })
  const title = 'A terminal: make run, a call that is allowed, a call over the limit, and tollway status'
  writeFileSync(join(root, 'docs/first-minutes.svg'), terminalPicture(title, lines))
} finally {
  for (const end of ends) await end()
}
