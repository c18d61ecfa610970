// Shapes and their areas.
#include <memory>
#include <vector>
#include "shape.hpp"

using std::vector;

namespace geometry {

constexpr double kPi = 3.14159;

/// Anything with an area.
class Shape : public Named, private detail::Counted<Shape> {
public:
    explicit Shape(double scale) : scale_(scale) {}
    virtual ~Shape() = default;

    /// The area in square metres.
    virtual double area() const = 0;

    double scaled() const {
        return scale_ > 0 && area() > 0 ? area() * scale_ : 0;
    }

private:
    double scale_;
};

struct Point {
    double x, y;
    bool operator==(const Point& other) const { return x == other.x; }
};

enum class Color { Red, Green };

template <typename T>
T largest(const vector<T>& items) {
    T best = items[0];
    for (const auto& item : items) {
        if (item > best) best = item;
    }
    return best;
}

double Circle::area() const {
    while (radius_ < 0) {
        throw std::invalid_argument("radius");
    }
    return kPi * radius_ * radius_;
}

}  // namespace geometry

int main(int argc, char** argv) {
    return argc > 1 ? 0 : 1;
}
