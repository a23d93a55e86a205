import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { X509Certificate } from 'node:crypto'
import {
  cpSync,
  mkdirSync,
  readFileSync,
  renameSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { missingProgram } from '../../../test/support/require-server.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { checkSubjectAltName, TlsFiles } from './tls.ts'

type TlsFilesOptions = ConstructorParameters<typeof TlsFiles>[0]

const skip = missingProgram('openssl')

/** Creates a temporary folder. */
function place(): string {
  const folder = temporaryFolder('tls')
  return folder
}

/** Writes a self-signed `tls.crt` with these names, and the matching `tls.key`, into the folder. */
function issue(folder: string, names: string, subject = '/CN=common.test'): void {
  mkdirSync(folder, { recursive: true })
  const curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-days', '1']
  const files = ['-keyout', join(folder, 'tls.key'), '-out', join(folder, 'tls.crt')]
  const altNames = names === '' ? [] : ['-addext', `subjectAltName=${names}`]
  execFileSync('openssl', ['req', '-x509', ...curve, ...files, '-subj', subject, ...altNames], {
    stdio: 'pipe',
  })
}

const optionsOf = (folder: string): TlsFilesOptions => ({
  cert: { setting: 'A_CERT', path: join(folder, 'tls.crt') },
  key: { setting: 'A_KEY', path: join(folder, 'tls.key') },
  ca: { setting: 'A_CA', path: join(folder, 'tls.crt') },
  onReloadFailed: text => assert.fail(text),
})

function open(t: TestContext, folder: string, options: Partial<TlsFilesOptions> = {}) {
  const warnings: string[] = []
  let changes = 0
  const files = new TlsFiles({
    ...optionsOf(folder),
    onReloadFailed: text => void warnings.push(text),
    ...options,
  })
  t.after(() => files.close())
  files.onChange(() => {
    changes += 1
  })
  return { files, warnings, changes: () => changes }
}

const certificateIn = (folder: string) => readFileSync(join(folder, 'tls.crt'), 'utf8')

/** Replaces a link atomically, as the kubelet does. */
function swapLink(link: string, target: string): void {
  symlinkSync(target, `${link}.new`)
  renameSync(`${link}.new`, link)
}

/** Ways to replace the certificate and the key in `live` by those in `next`. */
const replacements: Readonly<Record<string, (live: string, next: string) => void>> = {
  'written in place': (live, next) => cpSync(next, live, { recursive: true }),
  'renamed one by one': (live, next) => {
    for (const name of ['tls.key', 'tls.crt']) renameSync(join(next, name), join(live, name))
  },
  'a replaced folder, which only the poll can find': (live, next) => {
    renameSync(live, `${live}.old`)
    renameSync(next, live)
  },
}

for (const [how, replace] of Object.entries(replacements)) {
  test(`certificates are read again after a change: ${how}`, { skip }, async t => {
    const folder = place()
    const [live, next] = [join(folder, 'live'), join(folder, 'next')]
    issue(live, 'DNS:one.test')
    issue(next, 'DNS:two.test')
    const { files, warnings, changes } = open(t, live, { pollMs: 50 })
    assert.deepEqual(files.credentials().ca, certificateIn(live))
    const expected = certificateIn(next)
    replace(live, next)
    await waitFor('the new certificate', () => files.credentials().identity?.cert === expected)
    await waitFor('the new authority', () => files.credentials().ca === expected)
    assert.ok(changes() >= 1)
    // A poll between two writes reports one warning; the next poll succeeds.
    assert.ok(warnings.length <= 1, warnings.join('\n'))
  })
}

test('a swap of a mounted Secret is one change, and is noticed without the poll', { skip }, async t => {
  const folder = place()
  issue(join(folder, '..one'), 'DNS:one.test')
  issue(join(folder, '..two'), 'DNS:two.test')
  swapLink(join(folder, '..data'), '..one')
  for (const name of ['tls.crt', 'tls.key']) symlinkSync(`..data/${name}`, join(folder, name))
  const { files, warnings, changes } = open(t, folder, { pollMs: 60_000 })
  const before = files.credentials()
  swapLink(join(folder, '..data'), '..two')
  await waitFor('the change', () => changes() === 1)
  assert.equal(files.credentials().identity?.cert, certificateIn(join(folder, '..two')))
  assert.notDeepEqual(files.credentials(), before)
  assert.deepEqual(warnings, [])
})

test('files that may appear later are waited for, and then used like any others', { skip }, async t => {
  const folder = place()
  const { files, warnings, changes } = open(t, folder, { mayComeLater: true, pollMs: 60_000 })
  assert.deepEqual(files.credentials(), {})
  assert.match(files.missing(), /^A_CERT: .*tls\.crt: cannot be read: ENOENT; A_KEY: .*; A_CA: /)
  // The kubelet fills the mount of a Secret like this if the Secret did not exist when the pod started.
  issue(join(folder, '..first'), 'DNS:a.test')
  symlinkSync('..first', join(folder, '..data'))
  for (const name of ['tls.crt', 'tls.key']) symlinkSync(join('..data', name), join(folder, name))
  await waitFor('the files', () => files.missing() === '')
  assert.equal(files.credentials().identity?.cert, certificateIn(folder))
  assert.deepEqual([changes(), warnings], [1, []])
  rmSync(join(folder, '..data'))
  await waitFor('the complaint', () => warnings.length > 0)
  assert.equal(files.missing(), '', 'the last good files stay in use')
})

test('files that may appear later must be valid if they exist at the start', { skip }, t => {
  const folder = place()
  for (const name of ['tls.crt', 'tls.key']) writeFileSync(join(folder, name), 'nonsense')
  assert.throws(() => open(t, folder, { mayComeLater: true }), /A_CERT: .*contains no certificate/)
})

test('invalid or incomplete files are reported once, and the last good pair stays in use', {
  skip,
}, async t => {
  const folder = place()
  issue(join(folder, 'live'), 'DNS:one.test')
  issue(join(folder, 'next'), 'DNS:two.test')
  const live = join(folder, 'live')
  const { files, warnings, changes } = open(t, live, { pollMs: 20 })
  const good = files.credentials()
  const crt = join(live, 'tls.crt')
  cpSync(join(folder, 'next/tls.crt'), crt)
  await waitFor('the first warning', () => warnings.length === 1)
  assert.match(warnings[0] ?? '', /^A_KEY: .*is not the key of/)
  truncateSync(crt, 200)
  await waitFor('the second warning', () => warnings.length === 2)
  assert.match(warnings[1] ?? '', /A_CERT: .*tls\.crt: certificate 1 of 1 is damaged; A_CA: /)
  rmSync(crt)
  await waitFor('the third warning', () => warnings.length === 3)
  assert.match(warnings[2] ?? '', /A_CERT: .*tls\.crt: cannot be read: ENOENT/)
  assert.deepEqual([files.credentials(), changes()], [good, 0])

  writeFileSync(crt, good.identity?.cert ?? '')
  writeFileSync(join(live, 'beside'), 'other files do not count as a change')
  cpSync(join(folder, 'next'), live, { recursive: true })
  await waitFor('the change', () => changes() > 0)
  assert.equal(files.credentials().identity?.cert, certificateIn(join(folder, 'next')))
})

const secret = 'hunter2hunter2hunter2'

/** What makes valid files invalid, and the expected problems. */
const wrong: readonly [what: string, (folder: string) => Partial<TlsFilesOptions> | undefined, RegExp][] = [
  [
    'another key',
    folder => issue(join(folder, 'x'), '') ?? keyAt(folder, 'x/tls.key'),
    /^A_KEY: .*not the k/,
  ],
  ['no key', folder => keyAt(folder, 'none'), /^A_KEY: \S+none: cannot be read: ENOENT$/],
  [
    'an invalid key',
    folder => keyAt(folder, 'bad', secret),
    /^A_KEY: \S+bad: contains no private key in PEM$/,
  ],
  [
    'a damaged key',
    folder => keyAt(folder, 'bad', `-----BEGIN PRIVATE KEY-----\n${secret}\n-----END PRIVATE KEY-----\n`),
    /^A_KEY: \S+bad: contains no private key in PEM$/,
  ],
  [
    'an encrypted key',
    folder => keyAt(folder, 'bad', `-----BEGIN ENCRYPTED PRIVATE KEY-----\n${secret}\n`),
    /^A_KEY: \S+bad: the key is encrypted, and must not be$/,
  ],
  ['a certificate without a key', () => ({ key: { setting: 'A_KEY', path: '' } }), /^A_KEY: is needed, too$/],
  [
    'a key without a certificate',
    () => ({ cert: { setting: 'A_CERT', path: '' } }),
    /^A_CERT: is needed, too$/,
  ],
  [
    'a folder',
    folder => ({ ca: { setting: 'A_CA', path: folder } }),
    /^A_CA: \S+: it is not a regular file$/,
  ],
  [
    'a pipe, which is not waited for',
    folder => {
      execFileSync('mkfifo', [join(folder, 'pipe')])
      return { ca: { setting: 'A_CA', path: join(folder, 'pipe') } }
    },
    /^A_CA: \S+pipe: it is not a regular file$/,
  ],
  ['no authority', folder => caOf(folder, secret), /^A_CA: \S+ca: contains no certificate in PEM$/],
  [
    'a second authority that is damaged',
    folder => caOf(folder, `${certificateIn(folder)}-----BEGIN CERTIFICATE-----\n${secret}`),
    /^A_CA: \S+ca: certificate 2 of 2 is damaged$/,
  ],
  [
    'a file that is too long',
    folder => caOf(folder, ' '.repeat(1024 * 1024 + 1)),
    /^A_CA: \S+ca: the file has 1048577 bytes, and at most 1048576 are allowed$/,
  ],
  [
    'several problems at once',
    folder => ({ ...keyAt(folder, 'none'), ...caOf(folder, secret) }),
    /^A_KEY: \S+none: cannot be read: ENOENT$/,
  ],
]

function keyAt(folder: string, name: string, text?: string): Partial<TlsFilesOptions> {
  if (text !== undefined) writeFileSync(join(folder, name), text)
  return { key: { setting: 'A_KEY', path: join(folder, name) } }
}

function caOf(folder: string, text: string): Partial<TlsFilesOptions> {
  writeFileSync(join(folder, 'ca'), text)
  return { ca: { setting: 'A_CA', path: join(folder, 'ca') } }
}

test('files that are invalid at the start cause an error with the setting and the file', { skip }, () => {
  const folder = place()
  issue(folder, 'DNS:one.test')
  for (const [what, make, expected] of wrong) {
    const options = { ...optionsOf(folder), ...make(folder) }
    assert.throws(
      () => new TlsFiles(options),
      ({ message }: Error) => expected.test(message) && !message.includes(secret),
      what,
    )
  }
})

test('files that are not set are left out', { skip }, t => {
  const folder = place()
  issue(folder, 'DNS:one.test')
  const none = { setting: 'X', path: '' }
  const { ca } = optionsOf(folder)
  const onlyCa = open(t, folder, { cert: none, key: undefined, ca }).files.credentials()
  assert.deepEqual(Object.keys(onlyCa), ['ca'])
  assert.deepEqual(Object.keys(open(t, folder, { ca: none }).files.credentials()), ['identity'])
  assert.deepEqual(open(t, folder, { cert: none, key: none, ca: none }).files.credentials(), {})
})

/** Each line: the names of a certificate, the expected name, and whether they match. */
const nameCases = `
DNS:a.test                               | a.test             | yes
DNS:a.test                               | A.TEST             | yes
DNS:a.test, DNS:b.test                   | b.test             | yes
DNS:a.test                               | b.test             | no
DNS:a.test                               | x.a.test           | no
DNS:*.a.test                             | x.a.test           | yes
DNS:*.a.test                             | a.test             | no
DNS:*.a.test                             | x.y.a.test         | no
DNS:x*.a.test                            | xy.a.test          | no
DNS:a.test                               | common.test        | no
                                         | common.test        | no
IP:10.0.0.1                              | 10.0.0.1           | yes
IP:10.0.0.1                              | 10.0.0.2           | no
DNS:10.0.0.1                             | 10.0.0.1           | no
IP:2001:db8::1                           | 2001:db8:0::1      | yes
URI:spiffe://shop/pay                    | spiffe://shop/pay  | yes
DNS:a.test, IP:10.0.0.1, URI:spiffe://a/b | spiffe://a/b       | yes
URI:spiffe://shop/pay                    | spiffe://shop/paid | no
URI:spiffe://shop/payments               | spiffe://shop/pay  | no
URI:spiffe://shop/pay                    | shop               | no
DNS:a.test                               |                    | no
`

test('a certificate is valid for its alternative names, not for its common name', { skip }, () => {
  const folder = place()
  for (const line of nameCases.split('\n').filter(text => text !== '')) {
    const [names = '', expected = '', answer] = line.split('|').map(part => part.trim())
    issue(folder, names.replaceAll(' ', ''))
    const error = checkSubjectAltName(new X509Certificate(certificateIn(folder)), expected)
    assert.equal(error === undefined, answer === 'yes', `${line}: ${error?.message}`)
    if (error && names !== '')
      assert.match(error.message, /^the certificate is not for .*, but for (DNS|IP|URI)/)
  }
})

test('a name that contains the text of others is parsed as one name', { skip }, () => {
  const folder = place()
  writeFileSync(
    join(folder, 'openssl.cnf'),
    `[req]\ndistinguished_name = dn\nx509_extensions = ext\n[dn]\n[ext]\nsubjectAltName = @names\n` +
      `[names]\nDNS.1 = a.test\nURI.1 = "x://y\\, URI:spiffe://shop/pay\\, URI:z://z"\nURI.2 = spiffe://b/b\n`,
  )
  const args = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-subj', '/CN=x']
  const files = ['-keyout', join(folder, 'tls.key'), '-out', join(folder, 'tls.crt')]
  execFileSync('openssl', ['req', '-x509', '-config', join(folder, 'openssl.cnf'), ...args, ...files], {
    stdio: 'pipe',
  })
  const certificate = new X509Certificate(certificateIn(folder))
  assert.match(certificate.subjectAltName ?? '', / URI:spiffe:\/\/shop\/pay/)
  assert.ok(checkSubjectAltName(certificate, 'spiffe://shop/pay'))
  assert.equal(checkSubjectAltName(certificate, 'spiffe://b/b'), undefined)
})
