import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { benchmarkVersionsQuery } from '@/api/queries/benchmarks'
import { Asked } from '@/parts/Asked'
import { Card } from '@/parts/Card'
import { Ago } from '@/parts/Time'

/** Every version of a file; the one that is shown is marked. */
export function VersionsCard({ benchmark, shown }: { benchmark: string; shown: number }) {
  const versions = useQuery(benchmarkVersionsQuery(benchmark))
  return (
    <Card title="Versions" aside={<span className="quiet">a campaign keeps the version it was made from</span>}>
      <Asked query={versions} what="the versions">
        {({ items }) => (
          <table className="table versions">
            <thead>
              <tr>
                <th scope="col">Version</th>
                <th scope="col">Made</th>
                <th scope="col">By</th>
                <th scope="col">Digest</th>
              </tr>
            </thead>
            <tbody>
              {items.map((one) => (
                <tr key={one.version} aria-current={one.version === shown}>
                  <td>
                    <Link
                      to="/benchmarks/$benchmark"
                      params={{ benchmark }}
                      search={one.version === one.newest ? {} : { version: one.version }}
                      resetScroll={false}
                    >
                      {one.version}
                    </Link>
                    {one.version === shown && <span className="quiet"> shown</span>}
                  </td>
                  <td>
                    <Ago at={one.created_at} />
                  </td>
                  <td>{one.created_by || <span className="quiet">–</span>}</td>
                  <td className="mono">{one.digest.slice(0, 12)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        )}
      </Asked>
    </Card>
  )
}
