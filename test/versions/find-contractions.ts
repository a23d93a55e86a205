/**
 * Statements that remove something from programs of the previous version, which run on the new schema during
 * a rollout and after a rollback. A release first stops the use of a column; a later one removes it.
 */
const contractions: Readonly<Record<string, RegExp>> = {
  'DROP of a table, column, type, view, function or schema':
    /\bDROP\s+(TABLE|COLUMN|TYPE|DOMAIN|VIEW|FUNCTION|SCHEMA|SEQUENCE)\b/i,
  RENAME: /\bRENAME\b/i,
  'another type of a column': /\bALTER\s+(COLUMN\s+)?\w+\s+(SET\s+DATA\s+)?TYPE\b/i,
  'SET NOT NULL': /\bSET\s+NOT\s+NULL\b/i,
  'DROP DEFAULT': /\bDROP\s+DEFAULT\b/i,
  TRUNCATE: /\bTRUNCATE\b/i,
}
const addedColumn =
  /\bADD\s+(COLUMN\s+)?(IF\s+NOT\s+EXISTS\s+)?(?!CONSTRAINT\b|CHECK\b|UNIQUE\b|PRIMARY\b)\w+/i

/** Returns what each contracting statement of a migration does; nothing for one that only expands. */
export function findContractions(sql: string): readonly string[] {
  const code = sql
    .replaceAll(/--.*$/gm, '')
    .replaceAll(/'(?:[^']|'')*'/g, "''")
    .replaceAll(/\$(\w*)\$[\s\S]*?\$\1\$/g, "''")
  return code.split(';').flatMap(statement => {
    const found = Object.entries(contractions).filter(([, pattern]) => pattern.test(statement))
    const required = /\bALTER\s+TABLE\b/i.test(statement) && statement.split(/,(?![^(]*\))/).some(isRequired)
    return [...found.map(([name]) => name), ...(required ? ['a required column without a default'] : [])]
  })
}

function isRequired(action: string): boolean {
  const generated = /\bDEFAULT\b|\bGENERATED\b/i.test(action)
  return addedColumn.test(action) && /\bNOT\s+NULL\b/i.test(action) && !generated
}
