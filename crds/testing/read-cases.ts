import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { CORE_SCHEMA, loadAll } from 'js-yaml'

/** A resource, and its expected problems. */
export interface Case {
  readonly name: string
  readonly resource: unknown
  /** The problems as `path: message`, in order; empty for a valid resource. */
  readonly problems: readonly string[]
}

export function readCases(file: string, kind: string): readonly Case[] {
  const text = readFileSync(join(import.meta.dirname, '../testdata', file), 'utf8')
  return loadAll(text, { schema: CORE_SCHEMA }).map(document => {
    const { case: name, spec, resource, problems = [] } = document as CaseDocument
    return {
      name,
      resource: resource ?? { apiVersion: 'tollway.dev/v1alpha1', kind, metadata: { name: 'a' }, spec },
      problems,
    }
  })
}

interface CaseDocument {
  readonly case: string
  readonly spec?: unknown
  readonly resource?: unknown
  readonly problems?: readonly string[]
}
