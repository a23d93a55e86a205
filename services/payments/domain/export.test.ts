import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { exportCsv } from './export.ts'

/** Returns the exported record with these cells, without the header. */
function csvRecord(cells: readonly (string | bigint | number | boolean | null)[]): string {
  const columns = Object.fromEntries(cells.map((cell, index) => [`column ${index}`, () => cell]))
  const document = exportCsv(columns, [{}])
  return document.slice(document.indexOf('\r\n') + 2)
}

test('text is quoted, and numbers, flags and missing values are written as they are', () => {
  assert.equal(
    csvRecord(['a,b', 'say "hi"', 'ø\nå', -5n, 2, true, null]),
    '"a,b","say ""hi""","ø\nå",-5,2,true,\r\n',
  )
})

test('text that a spreadsheet program would read as a formula is neutralised', () => {
  const texts = [
    '=1+1',
    '+1',
    '-1',
    '@SUM(A1)',
    '\t=1',
    '\r=1',
    '\n=1',
    '  =1',
    '＝1',
    '＠a',
    "=cmd|' /C calc'!A0",
  ]
  for (const text of texts) assert.equal(csvRecord([text]), `"'${text.replaceAll('"', '""')}"\r\n`)
  for (const text of ['1-1', 'a=b', "'=1", '{"a":"=1"}', '']) {
    assert.equal(csvRecord([text]), `"${text.replaceAll('"', '""')}"\r\n`)
  }
})

/** Returns the quoted cells of one record of RFC 4180. */
function cellsOf(record: string): readonly string[] {
  assert.match(record, /\r\n$/)
  return [...record.slice(0, -2).matchAll(/(?:^|,)"((?:[^"]|"")*)"/g)].map(([, cell = '']) =>
    cell.replaceAll('""', '"'),
  )
}

test('any text can be read back from a record, and no cell begins a formula', () => {
  const part = fc.constantFrom('=', '+', '-', '@', '\t', '\r', '\n', '"', ',', ';', ' ', 'a', 'ø', '＝', "'")
  const text = fc.array(part, { maxLength: 6 }).map(parts => parts.join(''))
  const property = fc.property(fc.array(text, { minLength: 1, maxLength: 4 }), texts => {
    const cells = cellsOf(csvRecord(texts))
    assert.equal(cells.length, texts.length)
    for (const [index, cell] of cells.entries()) {
      assert.doesNotMatch(cell, /^\s*[=+\-@＝＋－＠\t\r]/u)
      assert.ok(cell === texts[index] || cell === `'${texts[index]}`)
    }
  })
  fc.assert(property)
})
