import Type, { type Static } from 'typebox'
import { answerShape, textShape, warnings } from './shape-parts.ts'

/** The JSON of calls that read and write resources as their authors write them. */

/** The maximum length of a manifest to apply: the API server accepts no larger resource. */
const maxManifestCharacters = 1_500_000

export const applyBody = Type.Object(
  {
    resource: Type.Unsafe<Record<string, unknown>>({
      type: 'object',
      'x-kubernetes-preserve-unknown-fields': true,
      description: 'A RateLimitConfig with its apiVersion, kind, metadata and spec.',
    }),
    manifest: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: maxManifestCharacters,
        description: 'The same resource as YAML. On one machine its text is written, with its comments.',
      }),
    ),
    dryRun: Type.Optional(Type.Boolean({ description: 'Checks everything, and writes nothing.' })),
    version: Type.Optional(
      Type.String({
        minLength: 1,
        maxLength: 128,
        description:
          'The version of the manifest that was edited. If the resource has another one, the answer is 409.',
      }),
    ),
    force: Type.Optional(
      Type.Boolean({ description: 'Takes over fields that another manager of the cluster has applied.' }),
    ),
  },
  { description: 'A resource to apply.' },
)

export const applyAnswer = answerShape(
  {
    namespace: textShape('The namespace.'),
    name: textShape('The name.'),
    created: Type.Boolean({ description: 'Whether the resource did not exist before.' }),
    origin: textShape('The file, or `cluster`.'),
    version: textShape('The version of the manifest after the change.'),
    dryRun: Type.Boolean({ description: 'Whether nothing was written.' }),
    warnings,
  },
  'The applied resource.',
)

export const manifestAnswer = answerShape(
  {
    kind: textShape('The kind.'),
    namespace: textShape('The namespace.'),
    name: textShape('The name.'),
    origin: textShape('The file, or `cluster`.'),
    version: textShape('For `version` of an apply: a hash of the text.'),
    manifest: textShape(
      'YAML: the document of the file with its comments, or the object without its status.',
    ),
  },
  'A resource as its author wrote it.',
)

export type ApplyBody = Static<typeof applyBody>
export type ApplyAnswer = Static<typeof applyAnswer>
export type ManifestAnswer = Static<typeof manifestAnswer>
