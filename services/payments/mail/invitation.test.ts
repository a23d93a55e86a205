import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import type { Mail } from '../storage/delivery/mails.ts'
import { invitation } from './invitation.ts'
import { isPlainAddress, mailbox } from './mail-transport.ts'
import { composeMail } from './send-due-mails.ts'
import { smtpServer } from './smtp-server.ts'

const from = { name: 'Tollway', address: 'pay@example.com' }

function someMail(fields: Partial<Mail> = {}): Mail {
  const content = { merchantName: 'Café Ø', website: 'https://example.org', country: 'DK' }
  const base = { id: '0198a7b0-0000-7000-8000-00000000000a', createdMs: Date.UTC(2026, 1, 3, 4, 5, 6) }
  return { ...base, template: 'invitation', recipient: 'eve@example.org', attempts: 1, content, ...fields }
}

async function messageOf(mail: Mail): Promise<string> {
  return Buffer.from((await composeMail(mail, from)).bytes).toString('utf8')
}

test("an invitation has the language of the merchant's country, and the name on one line", () => {
  const mails = ['DK', 'GL', 'FO', 'SE', null].map(country => invitation({ merchantName: 'Café Ø', country }))
  const [da, en] = ['Invitation til en forretningskonto', 'Invitation to a merchant account']
  assert.deepEqual(
    mails.map(({ subject }) => subject),
    [da, da, da, en, en],
  )
  for (const { body } of mails) assert.match(body, /: Café Ø\n/)
})

test('text of a merchant becomes neither a link nor a message', () => {
  const table: readonly [name: string, shown: string][] = [
    ['Smith & Sons 1890', 'Smith & Sons 1890'],
    ['O’Hara-Lund', 'O’Hara-Lund'],
    ['win at https://evil.example/x?y', 'win at https evil example x y'],
    ['pay@evil.example', 'pay evil example'],
    ['call +45 12 34 56 78 now', 'call now'],
    ['a\r\nBcc: x', 'a Bcc x'],
    ['x'.repeat(100), 'x'.repeat(40)],
    ['🎁🎁', '–'],
  ]
  const bodyOf = (merchantName: string | null) =>
    invitation({ merchantName, website: 'https://evil.example' })
  for (const [name, shown] of table) assert.match(bodyOf(name).body, new RegExp(`: ${shown}\n`), name)
  const nameless = bodyOf(null)
  assert.ok(!`${nameless.subject}${nameless.body}`.includes('evil'))
})

test('each attempt sends the same mail', async () => {
  const first = await messageOf(someMail())
  assert.equal(await messageOf(someMail({ attempts: 7 })), first)
  assert.match(first, /^Message-ID: <0198a7b0-0000-7000-8000-00000000000a@example\.com>\r$/m)
  assert.match(first, /^Date: Tue, 03 Feb 2026 04:05:06 \+0000\r$/m)
  assert.match(first, /^From: Tollway <pay@example\.com>\r$/m)
  assert.match(first, /^To: eve@example\.org\r$/m)
  assert.match(first, /^Auto-Submitted: auto-generated\r$/m)
})

const headerNames = [
  'From',
  'To',
  'Subject',
  'Auto-Submitted',
  'Message-ID',
  'Date',
  'MIME-Version',
  'Content-Type',
  'Content-Transfer-Encoding',
]

test('no name or website adds a header, a part or a command', async () => {
  const hostile = fc.oneof(
    fc.string({ unit: 'binary' }),
    fc.constantFrom('a\r\nBcc: x@y.z', 'a\nX: y', '\r\n\r\nbody', 'a\u2028b', '\r\n.\r\nQUIT\r\n', '\ud800'),
  )
  await fc.assert(
    fc.asyncProperty(hostile, hostile, async (merchantName, website) => {
      const message = await messageOf(someMail({ content: { merchantName, website, country: 'DK' } }))
      const [head = '', ...body] = message.split('\r\n\r\n')
      const fields = head.replaceAll(/\r\n[ \t]+/g, ' ').split('\r\n')
      assert.deepEqual(fields.map(field => field.split(':', 1)[0]).toSorted(), headerNames.toSorted())
      assert.ok(body.length > 0)
      assert.doesNotMatch(message.replaceAll('\r\n', ''), /[\r\n]/)
    }),
  )
})

test('only plain addresses are accepted', async () => {
  const table: readonly [string, boolean][] = [
    ['eve@example.org', true],
    ["o'hara+tag@sub.example.org", true],
    ['eve@localhost', true],
    ['', false],
    ['eve', false],
    ['eve@', false],
    ['eve@example.org\r\nRCPT TO:<x@y.z>', false],
    ['eve@example.org>', false],
    ['<eve@example.org>', false],
    ['"eve"@example.org', false],
    ['a@b.c, d@e.f', false],
    ['a@b@c.d', false],
    [`${'x'.repeat(300)}@example.org`, false],
  ]
  for (const [address, plain] of table) {
    assert.equal(isPlainAddress(address), plain, address)
    if (plain) continue
    await assert.rejects(composeMail(someMail({ recipient: address }), from), { permanent: true })
  }
  await assert.rejects(composeMail(someMail({ template: 'toString' }), from), { permanent: true })
})

test('the settings of mail are parsed, and wrong ones are reported', () => {
  const boxes: readonly [string, unknown][] = [
    ['a@b.c', { name: '', address: 'a@b.c' }],
    ['Shop ø <a@b.c>', { name: 'Shop ø', address: 'a@b.c' }],
    ['"Shop" <a@b.c>', { name: 'Shop', address: 'a@b.c' }],
    ['Shop', undefined],
    ['Shop\r\nX: <a@b.c>', undefined],
  ]
  for (const [text, expected] of boxes) assert.deepEqual(mailbox.parse(text), expected, text)
  const local = { host: 'mail', port: 587, tls: false, login: null }
  const servers: readonly [string, unknown][] = [
    ['', null],
    ['smtp://mail', local],
    ['smtp://[::1]:25/', { ...local, host: '::1', port: 25 }],
    [
      'smtps://joe%40x:p%3Aw@mail',
      { ...local, port: 465, tls: true, login: { user: 'joe@x', password: 'p:w' } },
    ],
    ['http://mail', undefined],
    ['smtp://', undefined],
    ['smtp://mail/path', undefined],
    ['smtp://mail?tls.rejectUnauthorized=false', undefined],
    ['mail:25', undefined],
  ]
  for (const [text, expected] of servers) assert.deepEqual(smtpServer.parse(text), expected, text)
})
