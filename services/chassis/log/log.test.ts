import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createLog } from './log.ts'

function linesOf(format: 'text' | 'json'): string[] {
  const lines: string[] = []
  const log = createLog({ level: 'info', format, write: line => lines.push(line) })
  log.debug('not shown')
  log.warn('two words', { path: '/x', text: 'a "b"', count: 2 })
  return lines
}

test('a text line has time, level, msg and the fields, quoted only where they could be misread', () => {
  const [line, ...more] = linesOf('text')
  assert.equal(more.length, 0)
  assert.match(line ?? '', /^time=\S+Z level=warn msg="two words" path=\/x text="a \\"b\\"" count=2\n$/)
})

test('a JSON line has @timestamp, level and @message', () => {
  const record = JSON.parse(linesOf('json')[0] ?? '')
  assert.ok(!Number.isNaN(Date.parse(record['@timestamp'])))
  assert.deepEqual(
    { ...record, '@timestamp': '' },
    {
      '@timestamp': '',
      level: 'warn',
      '@message': 'two words',
      path: '/x',
      text: 'a "b"',
      count: 2,
    },
  )
})
