import assert from 'node:assert/strict'
import { test } from 'node:test'
import { readSettings } from '../settings.ts'
import { logSettings } from './log-settings.ts'

const read = (env: Readonly<Record<string, string>>) => readSettings(logSettings('info'), env, () => '')

const cases: readonly [Readonly<Record<string, string>>, level: string, format: string][] = [
  [{}, 'info', 'text'],
  [{ LOG_LEVEL: 'WARNING', LOG_FORMAT: 'JSON' }, 'warn', 'json'],
  [{ LOG_LEVEL: 'warn' }, 'warn', 'text'],
  [{ LOG_LEVEL: 'trace' }, 'debug', 'text'],
  [{ LOG_LEVEL: 'Debug' }, 'debug', 'text'],
  [{ LOG_LEVEL: 'FATAL' }, 'error', 'text'],
  [{ LOG_LEVEL: 'panic' }, 'error', 'text'],
]

for (const [env, logLevel, logFormat] of cases) {
  test(`${JSON.stringify(env)} is ${logLevel} as ${logFormat}`, () => {
    assert.deepEqual(read(env), { value: { logLevel, logFormat } })
  })
}

test('an invalid level is rejected with the valid ones', () => {
  assert.deepEqual(read({ LOG_LEVEL: 'loud' }), {
    problems: [
      {
        name: 'LOG_LEVEL',
        message: '"loud" is not allowed: one of trace, debug, info, warn, warning, error, fatal, panic',
      },
    ],
  })
})
