import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { before, describe, it } from 'node:test'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { manifest, startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import { checkOutPreviousRelease, fileOfPreviousRelease, missingPreviousRelease } from './previous-release.ts'

const old = fileOfPreviousRelease('services/ratelimit/main.ts')

describe('the last good file of a client of the feed', { skip: missingPreviousRelease() }, () => {
  before(checkOutPreviousRelease)

  for (const [name, writer, reader] of [
    ['the current version reads that of 0.1.0', old, undefined],
    ['0.1.0 reads that of the current version', undefined, old],
  ] as const) {
    it(name, async t => {
      const limits = manifest('checkout', 'checkout', { user: '1/hour' })
      const tollway = await startTollway(t, { 'checkout.yaml': limits })
      const file = join(temporaryFolder('last-good'), 'feed')
      const env = {
        CONFIG_TYPE: 'GRPC_XDS_SOTW',
        CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${tollway.feedPort}`,
        CONFIG_LAST_GOOD_FILE: file,
        BACKEND_TYPE: 'memory',
      }
      const first = await startRateLimit(t, env, writer)
      await first.serves()
      await waitFor('the file', () => existsSync(file) && readFileSync(file).includes('checkout'))
      await first.program.end('SIGTERM')
      await tollway.program.end('SIGTERM')
      // No management server answers any more.
      const second = await startRateLimit(t, env, reader)
      await second.serves()
      assert.equal(await second.ask('checkout', 'user', 'x'), 200)
      assert.equal(await second.ask('checkout', 'user', 'x'), 429)
    })
  }
})
