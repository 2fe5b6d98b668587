import { ApiError } from '@/api/client'

/** What failed, where, and what to do: the server's own words. */
export function Failure({ error, again }: { error: unknown; again?: () => void }) {
  const problem = error instanceof ApiError ? error : null
  return (
    <div className="failure" role="alert">
      <p>
        <strong>{problem ? problem.message : error instanceof Error ? error.message : String(error)}</strong>
      </p>
      {problem?.at && <p className="quiet">at {problem.at}</p>}
      {problem?.errors.map((one) => (
        <p key={`${one.at}${one.message}`}>
          {one.at ? `${one.at}: ` : ''}
          {one.message}
          {one.try ? ` (${one.try})` : ''}
        </p>
      ))}
      {problem?.try_ && <p>Try: {problem.try_}</p>}
      {problem && <p className="quiet mono">{problem.code}</p>}
      {again && (
        <button type="button" className="button" onClick={again}>
          Ask again
        </button>
      )}
    </div>
  )
}

export function PageFailure(props: { error: unknown; again?: () => void }) {
  return (
    <>
      <h1 className="unseen">Something failed</h1>
      <Failure {...props} />
    </>
  )
}
