<?php

declare(strict_types=1);

namespace App\Http;

use App\Http\Request;
use Psr\Log\LoggerInterface as Logger;

const VERSION = '2.0';

interface Handler
{
    public function handle(Request $request): Response;
}

trait Counts
{
    private int $count = 0;

    public function increment(): void
    {
        $this->count++;
    }
}

enum Method: string
{
    case Get = 'GET';
    case Post = 'POST';
}

/**
 * Finds the handler of a request.
 */
#[Singleton]
final class Router extends Base implements Handler, \Countable
{
    use Counts;

    private const LIMIT = 10;

    public function __construct(private Logger $logger)
    {
    }

    /** Answers one request. */
    public function handle(Request $request): Response
    {
        foreach ($this->routes as $route) {
            if ($route->matches($request) && !$route->disabled) {
                return $route->run($request);
            }
        }
        return new Response(404);
    }

    public function count(): int
    {
        return $this->count;
    }
}

function route(string $path): Router
{
    return $path === '' ? new Router(null) : new Router($path);
}

?>
<p>Done</p>
