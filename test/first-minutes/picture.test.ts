import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { missingProgram } from '../support/require-server.ts'
import { root } from '../support/tollway.ts'
import { recordSession } from './record-session.ts'
import { terminalPicture, textOfPicture } from './terminal-picture.ts'

/** Numbers, dates and the widths of columns differ from run to run. */
const comparable = (text: string) =>
  text
    .replaceAll(/Date: .*? GMT/g, 'Date')
    .replaceAll(/\d+/g, '0')
    .replaceAll(/ +/g, ' ')

const skip = missingProgram('curl')

test('the picture of the README shows the present output, apart from numbers', { skip }, async t => {
  const picture = readFileSync(join(root, 'docs/first-minutes.svg'), 'utf8')
  const lines = await recordSession(t)
  assert.equal(
    comparable(textOfPicture(picture)),
    comparable(lines.join('')),
    'the picture is stale; run: node test/first-minutes/picture.ts',
  )
  const ports = new Set(picture.match(/(?<=127\.0\.0\.1:)\d+/g))
  assert.deepEqual(ports, new Set(['8081', '8080', '6070', '8082', '6072', '18000', '8000']))
  assert.match(picture, /HTTP\/1\.1 200 OK.*HTTP\/1\.1 429 Too Many Requests/s)
  assert.doesNotMatch(picture.replace('http://www.w3.org/2000/svg', ''), /href|url\(|@import|@font-face/)
})

test('a picture keeps its text, breaks long lines and escapes them', () => {
  const lines = ['$ a <b> & "c"', '', `${'x'.repeat(100)} y`]
  const picture = terminalPicture('title', lines)
  assert.equal(textOfPicture(picture), lines.join(''))
  assert.equal(picture.match(/<text /g)?.length, 4)
  assert.match(picture, /class="typed"[^>]*>\$ a &lt;b&gt; &amp; "c"</)
})
