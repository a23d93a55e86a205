import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { renameSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { watchPageSecrets } from './page-secrets.ts'
import { PageTokens } from './page-token.ts'

const purpose = { name: 'n', maxAgeMs: 60_000 }
const [first, second] = ['first '.repeat(6), 'second '.repeat(6)]

test('a rotation in three steps loses no token, without a restart', () => {
  const folder = temporaryFolder('tollway-page-secrets')
  const path = join(folder, 'secret')
  const write = (...lines: readonly string[]) => {
    writeFileSync(`${path}.new`, `${lines.join('\n')}\n`)
    renameSync(`${path}.new`, path)
  }
  const warnings: string[] = []
  const open = () => {
    const secrets = watchPageSecrets({
      set: first,
      path,
      folder,
      onWarning: (text: string) => warnings.push(text),
    })
    return new PageTokens({ secrets, nowMs: Date.now, randomBytes })
  }
  write(first)
  // Stand for two processes, which read the file at different times.
  const [one, other] = [open(), open()]
  const opens = (token: string) => other.decrypt<{ n: number }>(purpose, '', token)?.n === 1
  const close = () => one.encrypt(purpose, '', { n: 1 })
  const old = close()
  write(first, second)
  assert.ok(opens(close()))
  write(second, first)
  const rotated = close()
  assert.ok(opens(rotated) && opens(old))
  write(second)
  assert.ok(opens(rotated) && !opens(old))
  write('short')
  assert.ok(opens(close()))
  assert.match(warnings.join(), /secret 1: has 5 bytes; at least 32 are needed/)
  assert.doesNotMatch(warnings.join(), /short\b/)
})

test('without a setting the secret is kept in the state folder, and a short one is rejected', () => {
  const folder = temporaryFolder('tollway-page-secrets')
  const options = { set: '', path: undefined, folder, onWarning: assert.fail }
  assert.deepEqual(watchPageSecrets(options)(), watchPageSecrets(options)())
  assert.throws(() => watchPageSecrets({ ...options, set: 'short' }), /secret 1: has 5 bytes/)
})
