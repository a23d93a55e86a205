import assert from 'node:assert/strict'

export interface Sample {
  readonly name: string
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

export interface Metric {
  readonly type: string
  readonly help: string
  readonly samples: readonly Sample[]
}

const nameForm = /^[a-zA-Z_:][a-zA-Z0-9_:]*$/
const suffixes: Readonly<Record<string, RegExp>> = {
  counter: /^$/,
  gauge: /^$/,
  histogram: /^_(?:bucket|sum|count)$/,
}

/**
 * Parses Prometheus' text format more strictly than a scraper: each metric has its help and its type, in this
 * order and once, its samples are consecutive and have different labels, and a histogram's buckets ascend to
 * +Inf and to its count.
 */
export function readExposition(body: string): ReadonlyMap<string, Metric> {
  const metrics = new Map<string, Metric & { readonly samples: Sample[] }>()
  assert.ok(body === '' || body.endsWith('\n'), 'the last line has no line end')
  const lines = body.split('\n').slice(0, -1)
  while (lines.length > 0) {
    const [, name = '', help = ''] = match(/^# HELP (\S+) (.*)$/, lines.shift())
    const [, typed, type = ''] = match(/^# TYPE (\S+) (\S+)$/, lines.shift())
    assert.equal(typed, name)
    assert.match(name, nameForm)
    assert.ok(!metrics.has(name), `${name} occurs twice`)
    assert.doesNotMatch(help.replace(/\\[\\n]/g, ''), /\\/)
    const samples: Sample[] = []
    while (lines[0] !== undefined && !lines[0].startsWith('#')) samples.push(readSample(lines.shift() ?? ''))
    assert.ok(samples.length > 0, `${name} has no sample`)
    checkSamples(name, type, samples)
    metrics.set(name, { type, help, samples })
  }
  return metrics
}

function match(form: RegExp, line: string | undefined): RegExpMatchArray {
  const found = line?.match(form)
  assert.ok(found, `${JSON.stringify(line)} is not as ${form}`)
  return found
}

function readSample(line: string): Sample {
  const labels: Record<string, string> = {}
  const [, name = '', begin] = match(/^([^\s{]+)([\s{])/, line)
  assert.match(name, nameForm)
  let rest = line.slice(name.length)
  if (begin === '{') {
    rest = rest.slice(1)
    for (;;) {
      const [whole, label = '', value = ''] = match(
        /^([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\["\\n])*)"/,
        rest,
      )
      assert.ok(!Object.hasOwn(labels, label), `${label} occurs twice in ${line}`)
      labels[label] = value.replace(/\\(.)/g, (_, character) => (character === 'n' ? '\n' : character))
      rest = rest.slice(whole.length)
      if (rest.startsWith('}')) break
      assert.ok(rest.startsWith(','), line)
      rest = rest.slice(1)
    }
    rest = rest.slice(1)
  }
  const [, text = ''] = match(/^ (\S+)$/, rest)
  return { name, labels, value: numberOf(text) }
}

function numberOf(text: string): number {
  const special: Readonly<Record<string, number>> = { '+Inf': Infinity, '-Inf': -Infinity, NaN: Number.NaN }
  assert.match(text, /^(?:[+-]Inf|NaN|-?[\d.]+(?:e[+-]\d+)?)$/)
  return special[text] ?? Number(text)
}

function checkSamples(name: string, type: string, samples: readonly Sample[]): void {
  const form = suffixes[type]
  assert.ok(form, `${name} is of the type ${type}`)
  const seen = new Set<string>()
  for (const sample of samples) {
    assert.ok(sample.name.startsWith(name) && form.test(sample.name.slice(name.length)), sample.name)
    const key = JSON.stringify([sample.name, Object.entries(sample.labels).sort()])
    assert.ok(!seen.has(key), `${key} occurs twice`)
    seen.add(key)
    if (type === 'counter') assert.ok(sample.value >= 0, key)
  }
  if (type === 'histogram') checkHistogram(name, samples)
}

function checkHistogram(name: string, samples: readonly Sample[]): void {
  const buckets = new Map<string, Sample[]>()
  for (const sample of samples) {
    const { le, ...labels } = sample.labels
    const key = JSON.stringify(labels)
    if (sample.name === `${name}_bucket`) buckets.set(key, [...(buckets.get(key) ?? []), sample])
    else assert.equal(le, undefined)
  }
  const counts = samples.filter(sample => sample.name === `${name}_count`)
  assert.equal(counts.length, buckets.size)
  for (const { labels, value } of counts) {
    const bounds = buckets.get(JSON.stringify(labels)) ?? []
    for (const [index, bucket] of bounds.entries()) {
      const next = bounds[index + 1]
      if (next === undefined) assert.deepEqual([bucket.labels['le'], bucket.value], ['+Inf', value])
      else assert.ok(numberOf(bucket.labels['le'] ?? '') < numberOf(next.labels['le'] ?? ''))
      assert.ok(next === undefined || bucket.value <= next.value)
    }
  }
}
